// Records of holders that vanished without a release.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/locks/lock_fixture.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::milliseconds;

class LockStaleTest : public LockFixture<OnEveryLockStore> {};
ON_EVERY_STORE(LockStaleTest);

class RedisLockStaleTest : public LockFixture<OnRedis> {};

TEST_P(LockStaleTest, NextHolderLearnsOfTheOneThatVanished) {
  leave_stale(name);
  const FencingToken vanished = client.status(name)->token;
  auto recorder = std::make_shared<EventRecorder>();
  LockClient next{store.uri(), as_new_runner(recorder)};
  const Lock lock = next.acquire(name, {.wait = 0ms}).value();
  ASSERT_TRUE(lock.took_over_from());
  EXPECT_EQ(lock.took_over_from()->runner, client.runner().str());
  EXPECT_EQ(lock.took_over_from()->state, LockState::stale);
  EXPECT_EQ(lock.took_over_from()->remaining, 0ms);
  EXPECT_GT(lock.token(), vanished);
  EXPECT_EQ(recorder->types(), (std::vector{LockEventType::acquiring, LockEventType::acquired,
                                            LockEventType::stale_seen, LockEventType::takeover}));
  EXPECT_EQ(next.stats().takeovers, 1U);
  EXPECT_EQ(next.stats().stale_seen, 1U);
}

TEST_P(LockStaleTest, RecordOfAVanishedHolderIsGoneByItself) {
  auto options = as_new_runner();
  options.keep_stale_records = 1s;
  LockClient forgetful{store.uri(), options};
  const Lock lock = forgetful.acquire(name, {.ttl = 50ms, .heartbeat = Heartbeat::manual}).value();
  // It may be there until somebody looks, but nobody sees it.
  EXPECT_TRUE(eventually([&] { return !client.status(name); }, patience));
  EXPECT_FALSE(client.acquire(name)->took_over_from());
}

TEST_P(LockStaleTest, CleanupRemovesStaleRecordsOnly) {
  const Lock held = client.acquire(name + "-held").value();
  leave_stale(name + "-stale1");
  leave_stale(name + "-stale2");
  std::set<std::string> removed;
  for (const auto& record : other.cleanup_stale(name + "*")) removed.insert(record.name);
  EXPECT_EQ(removed, (std::set{name + "-stale1", name + "-stale2"}));
  EXPECT_TRUE(other.cleanup_stale(name + "*").empty());
  EXPECT_TRUE(other.status(name + "-held"));
  EXPECT_FALSE(other.status(name + "-stale1"));
}

/// Does something just before the second script from now.
class LinkWithHook final : public RedisLink {
 public:
  explicit LinkWithHook(const std::string& uri)
      : link_(connect_redis(uri, {.command_timeout = 10s})) {}

  std::function<void()> before_second;

  std::vector<leasehold::RedisReply> pipeline(std::span<const RedisCommand> commands,
                                              const RedisCall& how) override {
    const bool is_script = !commands.empty() && commands[0][0] == "EVALSHA";
    if (before_second && is_script && ++scripts_ == 2) before_second();
    return link_->pipeline(commands, how);
  }
  std::vector<std::shared_ptr<RedisLink>> primaries() override { return link_->primaries(); }
  std::string where() const override { return link_->where(); }

 private:
  const std::shared_ptr<RedisLink> link_;
  int scripts_ = 0;
};

TEST_F(RedisLockStaleTest, CleanupSparesALockThatIsTakenMeanwhile) {
  const auto link = std::make_shared<LinkWithHook>(store.uri());
  LockClient cleaner{link, as_new_runner()};
  leave_stale(name);
  ASSERT_EQ(cleaner.cleanup_stale(name).size(), 1U);
  leave_stale(name);
  std::optional<Lock> lock;
  // Read, and then removed.
  link->before_second = [&] { lock = other.acquire(name, {.wait = 0ms}).value(); };
  EXPECT_TRUE(cleaner.cleanup_stale(name).empty());
  ASSERT_TRUE(lock);
  EXPECT_EQ(lock->extend(), Ownership::held);
}

}  // namespace
}  // namespace leasehold::testing
