// Holders that die or stand still: real processes, killed and stopped.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "harness/process.hpp"
#include "harness/temp_dir.hpp"
#include "tests/support/lock_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;

/// The program lock_holder_program, which has the lock when the constructor returns.
class Holder {
 public:
  Holder(const LockStoreUnderTest& store, const std::string& name, std::chrono::milliseconds ttl,
         std::vector<std::string> more_arguments = {})
      : process(arguments(store.uri(), name, ttl, std::move(more_arguments))) {
    std::istringstream line{process.read_line(patience).value_or("")};
    std::string held;
    line >> held >> token.value >> runner;
    EXPECT_EQ(held, "held");
  }

  /// The answer to an order.
  std::string ask(const std::string& order) {
    EXPECT_TRUE(process.write_line(order));
    return process.read_line(patience).value_or("no answer");
  }

 private:
  static std::vector<std::string> arguments(const std::string& uri, const std::string& name,
                                            std::chrono::milliseconds ttl,
                                            std::vector<std::string> more) {
    std::vector<std::string> all{LEASEHOLD_TEST_PROGRAMS "/lock_holder_program", uri, name,
                                 std::to_string(ttl.count())};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

 public:
  Process process;
  FencingToken token;
  std::string runner;
};

class LockProcessTest : public OnEveryLockStore {
 protected:
  std::string name = name_for_test();
  std::shared_ptr<EventRecorder> events = std::make_shared<EventRecorder>();
  LockClient client{store.uri(), as_new_runner(events)};
};
ON_STORES_BETWEEN_PROCESSES(LockProcessTest);

TEST_P(LockProcessTest, LockOfAKilledHolderIsTakenOverWhenItsLeaseEnds) {
  Holder holder{store, name, 1'000ms};
  holder.process.kill(SIGKILL);
  ASSERT_TRUE(holder.process.wait(patience));
  const LockRecord seen = client.status(name).value();
  EXPECT_EQ(seen.runner, holder.runner);

  const Lock lock = client.acquire(name, {.wait = patience}).value();
  EXPECT_GT(lock.token(), holder.token);
  ASSERT_TRUE(lock.took_over_from());
  EXPECT_EQ(lock.took_over_from()->runner, holder.runner);
  EXPECT_EQ(lock.took_over_from()->pid, holder.process.pid());
  EXPECT_EQ(lock.took_over_from()->metadata.at("program"), "holder");
  EXPECT_EQ(lock.took_over_from()->state, LockState::stale);
  // Not before the dead holder's lease had ended.
  EXPECT_GE(lock.took_over_from()->heartbeat_age, 1'000ms);
  EXPECT_EQ(client.stats().takeovers, 1U);
  EXPECT_EQ(client.stats().stale_seen, 1U);
}

TEST_P(LockProcessTest, EndOfAProcessReleases) {
  Holder holder{store, name, 60s};
  holder.process.close_input();
  ASSERT_EQ(holder.process.wait(patience), ExitStatus{});
  EXPECT_FALSE(client.status(name));
}

TEST_P(LockProcessTest, HolderThatStoodStillKnowsThatItLostTheLock) {
  Holder holder{store, name, 2'000ms};
  EXPECT_EQ(holder.ask("valid"), "valid");
  store.pause(holder.process);
  Lock lock = client.acquire(name, {.wait = patience}).value();
  EXPECT_EQ(lock.took_over_from()->runner, holder.runner);
  EXPECT_GT(lock.token(), holder.token);

  // Asked before it runs again: the first thing it does is to answer.
  EXPECT_TRUE(holder.process.write_line("valid"));
  holder.process.resume();
  EXPECT_EQ(holder.process.read_line(patience), "invalid");
  const std::string lost = holder.ask("wait-lost");
  EXPECT_TRUE(lost == "lost expired" || lost == "lost taken") << lost;
  EXPECT_EQ(holder.ask("release"), "was_lost");
  EXPECT_EQ(holder.ask("valid"), "invalid");

  EXPECT_EQ(lock.extend(), Ownership::held);
  EXPECT_EQ(client.status(name)->runner, client.runner().str());
}

TEST_P(LockProcessTest, ReleaseOfAHolderThatStoodStillDoesNotHurtTheNext) {
  Holder holder{store, name, 500ms};
  store.pause(holder.process);
  Lock lock = client.acquire(name, {.wait = patience}).value();
  EXPECT_TRUE(holder.process.write_line("release"));
  holder.process.resume();
  EXPECT_EQ(holder.process.read_line(patience), "was_lost");
  EXPECT_EQ(lock.extend(), Ownership::held);
}

TEST_P(LockProcessTest, HolderThatStoodStillWhileNobodyCameLostItAllTheSame) {
  Holder holder{store, name, 300ms};
  store.pause(holder.process);
  ASSERT_TRUE(eventually([&] { return client.status(name)->state == LockState::stale; }, patience));
  EXPECT_TRUE(holder.process.write_line("valid"));
  holder.process.resume();
  EXPECT_EQ(holder.process.read_line(patience), "invalid");
  EXPECT_TRUE(holder.ask("wait-lost").starts_with("lost "));
  // A lost lock is not taken again silently, though it is free.
  EXPECT_EQ(holder.ask("valid"), "invalid");
  EXPECT_EQ(holder.ask("release"), "was_lost");
  EXPECT_TRUE(eventually([&] {
    client.cleanup_stale(name);
    return !client.status(name);
  }));
}

TEST_P(LockProcessTest, SilentHolderIsRobbedBeforeItsTtlEnds) {
  Holder holder{store, name, 30s};
  store.pause(holder.process);
  // It promised a heartbeat every 10 s: as if 20 s had passed since the last one.
  EXPECT_FALSE(client.acquire(
      name, {.wait = 0ms, .on_conflict = OnConflict::steal_stale, .steal_after = 1ms}));
  store.shorten_lease(name, 20s);
  Lock lock =
      client
          .acquire(name, {.wait = 0ms, .on_conflict = OnConflict::steal_stale, .steal_after = 1ms})
          .value();
  EXPECT_EQ(lock.took_over_from()->runner, holder.runner);
  EXPECT_EQ(lock.took_over_from()->state, LockState::held);
  EXPECT_GT(lock.token(), holder.token);
  holder.process.resume();
  EXPECT_EQ(holder.ask("release"), "was_lost");
  EXPECT_EQ(lock.extend(), Ownership::held);
}

TEST_P(LockProcessTest, RestartedServiceAdoptsTheLockOfItsDeadPredecessor) {
  const TempDir dir;
  const auto file = dir.path() / "runner";
  Holder holder{store, name, 60s, {file.string()}};
  {
    // While the predecessor lives nobody else is that runner.
    auto options = as_new_runner();
    options.runner = RunnerId::from_file(file);
    ASSERT_FALSE(options.runner->persistent());
    LockClient impostor{store.uri(), options};
    EXPECT_FALSE(impostor.acquire(name, {.reentry = Reentry::allowed, .wait = 0ms}));
  }
  holder.process.kill(SIGKILL);
  ASSERT_TRUE(holder.process.wait(patience));

  auto options = as_new_runner();
  options.runner = RunnerId::from_file(file);
  ASSERT_EQ(options.runner->str(), holder.runner);
  LockClient restarted{store.uri(), options};
  EXPECT_FALSE(client.acquire(name, {.reentry = Reentry::allowed, .wait = 0ms}));
  EXPECT_FALSE(restarted.acquire(name, {.wait = 0ms}));
  Lock lock = restarted.acquire(name, {.reentry = Reentry::allowed, .wait = 0ms}).value();
  if (store.is_redis()) {
    EXPECT_GT(lock.token(), holder.token) << "for all that Redis knows, it may be alive";
  } else {
    EXPECT_EQ(lock.token(), holder.token);
  }
  ASSERT_TRUE(lock.took_over_from());
  EXPECT_EQ(lock.took_over_from()->runner, holder.runner);
  EXPECT_EQ(lock.extend(), Ownership::held);
  EXPECT_EQ(lock.release(), Release::done);
}

}  // namespace
}  // namespace leasehold::testing
