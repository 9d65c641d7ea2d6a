#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/lock_stores.hpp"
#include "tests/support/process.hpp"

// What the tests of shared locks, semaphores and sets of locks share.

namespace leasehold::testing {

inline LockOptions fail_fast() { return {.on_conflict = OnConflict::fail_fast}; }
inline LockOptions by_force() { return {.on_conflict = OnConflict::force}; }

/// An acquire that runs on a thread of its own.
template <typename Acquire>
auto in_background(Acquire acquire) {
  return std::async(std::launch::async, std::move(acquire));
}

/// What came of it. Fails the test if that takes too long.
template <typename Acquired>
Acquired result_of(std::future<Acquired>& future) {
  EXPECT_EQ(future.wait_for(patience), std::future_status::ready);
  return future.get();
}

/// A process that holds, or waits for, a lock of the family: lock_family_program.
class FamilyProcess {
 public:
  /// `kind`: exclusive, read, write, or a number of permits.
  FamilyProcess(const LockStoreUnderTest& store, const std::string& name,
                std::chrono::milliseconds ttl, const std::string& kind)
      : process_({LEASEHOLD_TEST_PROGRAMS "/lock_family_program", store.uri(), name,
                  std::to_string(ttl.count()), kind}) {}

  /// Lets it end properly: what it holds is released.
  ~FamilyProcess() {
    process_.close_input();
    process_.wait(patience);
  }
  FamilyProcess(const FamilyProcess&) = delete;
  FamilyProcess& operator=(const FamilyProcess&) = delete;

  /// Waits until it has the lock.
  FencingToken held() {
    std::istringstream line{process_.read_line(patience).value_or("")};
    std::string word;
    FencingToken token;
    line >> word >> token.value;
    EXPECT_EQ(word, "held");
    return token;
  }

  /// The answer to an order.
  std::string ask(const std::string& order) {
    EXPECT_TRUE(process_.write_line(order));
    return answer();
  }
  void order(const std::string& order) { EXPECT_TRUE(process_.write_line(order)); }
  std::string answer() { return process_.read_line(patience).value_or("no answer"); }

  void kill() {
    process_.kill(SIGKILL);
    ASSERT_TRUE(process_.wait(patience));
  }
  pid_t pid() const { return process_.pid(); }

 private:
  Process process_;
};

/// Two clients of one store, and a look at one lock from outside.
template <class Store>
class LockFamilyFixture : public Store {
 protected:
  using Clock = std::chrono::steady_clock;

  void TearDown() override {
    // What was lost on purpose is free as soon as the server thinks so too. Taking the lock removes
    // what a vanished reader left.
    EXPECT_TRUE(eventually(
        [&] {
          other.cleanup_stale(name + "*");
          const bool free = other.acquire(name, fail_fast()).has_value();
          return free && other.list(name + "*").empty();
        },
        patience));
  }

  /// Runs a scenario in which nobody may lose its place: both clients listen, and it is repeated if
  /// the machine stood still so long that somebody had to.
  template <class Scenario>
  void repeat_if_evicted(const Scenario& scenario) {
    for (LockClient* each : {&client, &other}) ASSERT_TRUE(this->store.listens(*each, name));
    repeat_if_starved([this] { return EvictionWatch{{&client, &other}}; }, scenario);
  }

  std::int64_t in_line() const { return this->store.in_line(name); }

  /// Whether that many stand in line now, seen from outside.
  ::testing::AssertionResult waiting(std::int64_t number) const {
    return eventually([&] { return in_line() == number; }, patience);
  }

  std::uint64_t holders() {
    const auto record = other.status(name);
    return record ? record->holder_count : 0;
  }

  std::string name = name_for_test();
  std::shared_ptr<EventRecorder> events = std::make_shared<EventRecorder>();
  LockClient client{this->store.uri(), as_new_runner(events)};
  LockClient other{this->store.uri(), as_new_runner()};
};

/// A link that an application lends us, with a hand in what passes. The hooks are set before the
/// link is used; they run on the threads that use it.
class HookedLink final : public RedisLink {
 public:
  explicit HookedLink(const std::string& uri)
      : inner_(connect_redis(uri, {.command_timeout = std::chrono::seconds{10}})) {}

  std::function<void()> before_renewal = [] {};  ///< a heartbeat is about to be sent
  std::function<void()> after_command = [] {};
  std::function<void()> after_message = [] {};
  std::function<void()> after_subscribed = [] {};
  bool subscribes = true;
  std::optional<Gate> subscribes_after;  ///< until then nobody hears what is said to us

  /// Of all the calls that are not renewals.
  int round_trips() const { return round_trips_; }

  std::vector<leasehold::RedisReply> pipeline(std::span<const RedisCommand> commands,
                                              std::chrono::milliseconds timeout) override {
    const auto is_renewal = [](const RedisCommand& command) {
      return command.back().find("\"renewals\":") != std::string_view::npos ||
             command[command.size() - 2].find("\"renewals\":") != std::string_view::npos;
    };
    if (std::any_of(commands.begin(), commands.end(), is_renewal)) before_renewal();
    return inner_->pipeline(commands, timeout);
  }

  std::vector<leasehold::RedisReply> pipeline(std::span<const RedisCommand> commands) override {
    ++round_trips_;
    auto replies = inner_->pipeline(commands);
    after_command();
    return replies;
  }

  std::unique_ptr<RedisSubscription> subscribe(std::string channel,
                                               std::function<void(std::string_view)> on_message,
                                               std::function<void()> on_subscribed) override {
    if (!subscribes) return nullptr;
    const auto begin = [=, this] {
      return inner_->subscribe(
          channel,
          [=, this](std::string_view message) {
            on_message(message);
            after_message();
          },
          [=, this] {
            on_subscribed();
            after_subscribed();
          });
    };
    if (!subscribes_after) return begin();
    auto late = std::make_unique<LateSubscription>();
    late->thread = std::jthread([begin, gate = *subscribes_after, &inner = late->inner] {
      if (gate.wait()) inner = begin();
    });
    return late;
  }

  std::string where() const override { return inner_->where(); }

 private:
  struct LateSubscription final : RedisSubscription {
    std::unique_ptr<RedisSubscription> inner;
    std::jthread thread;
  };

  const std::shared_ptr<RedisLink> inner_;
  std::atomic<int> round_trips_{0};
};

/// What the threads of lock_storm_program saw, in several processes.
struct StormReport {
  long long rounds = 0;
  long long violations = 0;
  long long most_inside = 0;
  long long longest_wait_ms = 0;
};

/// `what` are the last arguments of the program; "seed" becomes a different number for each.
inline StormReport run_storm(const LockStoreUnderTest& store, const std::string& name,
                             int processes, int threads, int rounds,
                             const std::vector<std::string>& what) {
  std::vector<std::unique_ptr<Process>> running;
  for (int i = 0; i < processes; ++i) {
    std::vector<std::string> argv{LEASEHOLD_TEST_PROGRAMS "/lock_storm_program",
                                  store.uri(),
                                  shared_redis().uri(),
                                  name,
                                  std::to_string(threads),
                                  std::to_string(rounds)};
    for (const std::string& word : what) {
      argv.push_back(word == "seed" ? std::to_string(1'000 * (i + 1)) : word);
    }
    running.push_back(std::make_unique<Process>(std::move(argv)));
  }
  StormReport all;
  for (const auto& process : running) {
    std::istringstream line{process->read_line(std::chrono::seconds{120}).value_or("")};
    StormReport one;
    line >> one.rounds >> one.violations >> one.most_inside >> one.longest_wait_ms;
    EXPECT_EQ(process->wait(patience), ExitStatus{});
    all.rounds += one.rounds;
    all.violations += one.violations;
    all.most_inside = std::max(all.most_inside, one.most_inside);
    all.longest_wait_ms = std::max(all.longest_wait_ms, one.longest_wait_ms);
  }
  for (const std::string& key : shared_redis().keys("inside:" + name + "*")) {
    shared_redis().command({"DEL", key});
  }
  return all;
}

}  // namespace leasehold::testing
