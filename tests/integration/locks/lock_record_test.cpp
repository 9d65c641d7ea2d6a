// What can be seen of locks: the record of one, and the list of all.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/integration/locks/lock_fixture.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

class LockRecordTest : public LockFixture<OnEveryLockStore> {};
ON_EVERY_STORE(LockRecordTest);

class RedisLockRecordTest : public LockFixture<OnRedis> {};

TEST_P(LockRecordTest, StatusShowsTheRecord) {
  EXPECT_FALSE(other.status(name));
  const auto before = system_clock::now();
  Lock lock =
      client.acquire(name, {.ttl = 1h, .metadata = {{"job", "7"}, {"note", "\"ü\"\n"}}}).value();
  const auto after = system_clock::now();
  const LockRecord first = other.status(name).value();
  EXPECT_EQ(first.name, name);
  EXPECT_EQ(first.state, LockState::held);
  EXPECT_EQ(first.runner, client.runner().str());
  EXPECT_EQ(first.pid, getpid());
  EXPECT_FALSE(first.host.empty());
  EXPECT_TRUE(first.platform.starts_with("Linux ")) << first.platform;
  EXPECT_EQ(first.metadata,
            (std::map<std::string, std::string>{{"job", "7"}, {"note", "\"ü\"\n"}}));
  EXPECT_EQ(first.token, lock.token());
  EXPECT_EQ(first.ttl, 1h);
  EXPECT_EQ(first.renewals, 0U);
  EXPECT_GE(first.acquired_at, before - 20ms);
  EXPECT_LE(first.acquired_at, after + 20ms);
  EXPECT_EQ(first.heartbeat_at, first.acquired_at);

  ASSERT_TRUE(eventually([&] { return other.status(name)->age >= 100ms; }));
  const auto before_extend = steady_clock::now();
  EXPECT_EQ(lock.extend(), Ownership::held);
  const auto extend_took = steady_clock::now() - before_extend;
  const LockRecord second = other.status(name).value();
  EXPECT_EQ(second.renewals, 1U);
  EXPECT_EQ(second.metadata, first.metadata);
  EXPECT_EQ(second.token, lock.token());
  EXPECT_GE(second.age + 20ms, 100ms);
  EXPECT_LE(second.heartbeat_age + 100ms, second.age + 20ms);
  EXPECT_GE(second.heartbeat_at, second.acquired_at + 80ms);
  // The time of the grant does not move with heartbeats, but for what the requests took.
  EXPECT_GE(second.acquired_at, before - 20ms);
  EXPECT_LE(second.acquired_at, first.acquired_at + extend_took + 20ms);
}

TEST_F(RedisLockRecordTest, KeyOfAnotherProgramCountsAsHeldByNobodyWeKnow) {
  shared_redis().command({"SET", key_of(name), "something else", "PX", "60000"});
  const auto refused = client.acquire(name, {.on_conflict = OnConflict::fail_fast});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.refusal().holder->runner, "");
  EXPECT_GT(refused.refusal().holder->remaining, 0ms);
  EXPECT_EQ(client.status(name)->state, LockState::held);
  EXPECT_FALSE(client.acquire(
      name, {.wait = 0ms, .on_conflict = OnConflict::steal_stale, .steal_after = 1ms}));
  EXPECT_TRUE(client.cleanup_stale(name).empty());
  EXPECT_TRUE(client.acquire(name, {.on_conflict = OnConflict::force}));
  EXPECT_FALSE(client.status(name));
}

TEST_F(RedisLockRecordTest, KeyOfAnotherTypeIsRefusedAndLeftAlone) {
  shared_redis().command({"RPUSH", key_of(name), "a"});
  try {
    client.acquire(name);
    FAIL() << "acquired";
  } catch (const ServerRefused& error) {
    EXPECT_EQ(error.reason(), ServerRefused::Reason::wrong_type);
  }
  EXPECT_EQ(client.stats().failures, 1U);
  EXPECT_EQ(shared_redis().command({"LLEN", key_of(name)}).integer, 1);
  shared_redis().command({"DEL", key_of(name)});
}

TEST_F(RedisLockRecordTest, ScriptThatFailsHalfWayLeavesNoLock) {
  shared_redis().command({"SET", fence_key_of(name), "not a number", "PX", "60000"});
  EXPECT_THROW(client.acquire(name), ServerRefused);
  EXPECT_FALSE(store.has_lock(name));
}

class LockListTest : public OnEveryLockStoreOfItsOwn {};  // all locks are counted
ON_EVERY_STORE(LockListTest);

TEST_P(LockListTest, WalksOverMoreThanOnePageAndCounts) {
  LockClient client{store.uri(), as_new_runner()};
  LockClient other{store.uri(), as_new_runner()};
  constexpr std::size_t many = 1'500;
  {
    std::vector<Lock> locks;
    for (std::size_t i = 0; i < many; ++i) {
      locks.push_back(client.acquire("many:" + std::to_string(100'000 + i)).value());
    }
    const Lock others = other.acquire("single").value();
    {
      const Lock stale =
          other.acquire("stale", {.ttl = 50ms, .heartbeat = Heartbeat::manual}).value();
      // A handle that knows of its loss leaves the record alone.
      ASSERT_TRUE(eventually([&] {
        return stale.lost().stop_requested() && client.status("stale")->state == LockState::stale;
      }));
    }
    if (store.is_redis()) store.redis().command({"RPUSH", key_of("no lock"), "a"});

    const auto found = other.list("many:*");
    ASSERT_EQ(found.size(), many);
    for (std::size_t i = 0; i < many; ++i) {
      ASSERT_EQ(found[i].name, locks[i].name());
      ASSERT_EQ(found[i].token, locks[i].token());
    }
    EXPECT_EQ(client.list().size(), many + 2);
    EXPECT_EQ(client.list("many:10000?").size(), 10U);
    EXPECT_EQ(client.list("[s]ingle").size(), 1U);
    EXPECT_EQ(client.list("\\s[^a]ngle").size(), 1U);
    EXPECT_TRUE(client.list("many:\\*").empty());
    EXPECT_TRUE(client.list("none*").empty());

    int visited = 0;
    client.visit("*", [&](const LockRecord&) { return ++visited < 10; });
    EXPECT_EQ(visited, 10);

    EXPECT_FALSE(client.stats().census);
    const LockCensus census = client.stats(StatsScope::store).census.value();
    EXPECT_EQ(census.total, many + 2);
    EXPECT_EQ(census.active, many + 1);
    EXPECT_EQ(census.mine, many);
    EXPECT_EQ(census.stale, 1U);
    EXPECT_EQ(client.stats().held, many);
    EXPECT_EQ(client.stats().heartbeats_active, many);
  }
  EXPECT_EQ(client.cleanup_stale().size(), 1U);
  if (!store.is_redis()) return;
  store.redis().command({"DEL", key_of("no lock")});
  store.expect_nothing_left();
  // Never KEYS: the only ones are ours, from outside.
  const std::string calls = store.redis().command({"INFO", "commandstats"}).string;
  EXPECT_NE(calls.find("cmdstat_keys:calls=1,"), std::string::npos) << calls;
}

}  // namespace
}  // namespace leasehold::testing
