// L8: one keep-alive for all locks of a client, in batches; and L7, on a node of a cluster.
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "harness/free_port.hpp"
#include "tests/support/lock_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;

/// A number from INFO.
std::uint64_t info(const RedisEndpoint& redis, const std::string& section,
                   const std::string& what) {
  const std::string text = redis.command({"INFO", section}).string;
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return std::stoull(text.substr(at + what.size()));
}

class LockKeepAliveTest : public OnEveryLockStoreOfItsOwn {};
ON_EVERY_STORE(LockKeepAliveTest);

TEST_P(LockKeepAliveTest, ManyLocksAreKeptAliveByFewRoundTrips) {
  const auto events = std::make_shared<EventRecorder>();
  LockClient client{store.uri(), as_new_runner(events)};
  constexpr std::size_t many = 2'000;
  constexpr std::size_t beats = 3 * many;
  {
    std::vector<Lock> locks;
    for (std::size_t i = 0; i < many; ++i) {
      locks.push_back(
          client.acquire("lock" + std::to_string(i), {.ttl = 6s, .heartbeat_every = 500ms})
              .value());
    }
    EXPECT_EQ(client.stats().heartbeats_active, many);
    const auto count_reads = [&] {
      return store.is_redis() ? info(store.redis(), "stats", "total_reads_processed:") : 0;
    };
    const auto reads_before = count_reads();
    const auto beats_before = client.stats().heartbeats;
    ASSERT_TRUE(events->wait_for(LockEventType::heartbeat, beats_before + beats));
    const auto reads = count_reads() - reads_before;
    // Redis reads 16 KiB at a time, some 40 renewals.
    EXPECT_LT(reads * 8, beats);

    EXPECT_EQ(client.stats().lost, 0U);
    for (const Lock& lock : locks) ASSERT_TRUE(lock.valid());
    for (Lock& lock : locks) ASSERT_EQ(lock.release(), Release::done);
    EXPECT_EQ(client.stats().heartbeats_active, 0U);
  }
  EXPECT_EQ(client.stats().heartbeat_failures, 0U);
  store.expect_nothing_left();
}

TEST_P(LockKeepAliveTest, NothingIsRenewedAfterItsRelease) {
  store.repeat_if_heartbeats_starved(1'500ms, [&] {
    const auto events = std::make_shared<EventRecorder>();
    LockClient client{store.uri(), as_new_runner(events)};
    const Lock kept = client.acquire("kept", {.ttl = 1'500ms}).value();
    for (int i = 0; i < 20; ++i) client.acquire("released", {.ttl = 1'500ms})->release();
    EXPECT_EQ(client.stats().heartbeats_active, 1U);
    EXPECT_TRUE(events->wait_for(LockEventType::heartbeat, 3, "kept"));
    EXPECT_EQ(events->count(LockEventType::heartbeat, "released"), 0U);
    EXPECT_EQ(events->count(LockEventType::heartbeat_failed, "released"), 0U);
    EXPECT_EQ(events->count(LockEventType::lost), 0U);
  });
}

TEST_P(LockKeepAliveTest, SameNameAgainIsRenewedForItself) {
  // Registered by acquisition: what was released must not take the next one's heartbeats along.
  store.repeat_if_heartbeats_starved(1'500ms, [&] {
    const auto events = std::make_shared<EventRecorder>();
    LockClient client{store.uri(), as_new_runner(events)};
    auto first = std::make_unique<Lock>(client.acquire("lock", {.ttl = 3s}).value());
    first->release();
    const Lock second = client.acquire("lock", {.ttl = 1'500ms}).value();
    first.reset();
    EXPECT_TRUE(events->wait_for(LockEventType::heartbeat, 4));
    EXPECT_TRUE(second.valid());
    for (const auto& entry : events->entries()) {
      if (entry.type != LockEventType::heartbeat) continue;
      EXPECT_EQ(entry.token, second.token());
    }
  });
}

TEST_P(LockKeepAliveTest, WorksWhileTheHolderIsBlocked) {
  store.repeat_if_heartbeats_starved(1'500ms, [&] {
    const auto events = std::make_shared<EventRecorder>();
    LockClient client{store.uri(), as_new_runner(events)};
    // Acquired by a thread that is gone, used by another one.
    std::optional<Lock> lock;
    std::thread{[&] { lock = client.acquire("lock", {.ttl = 1'500ms}).value(); }}.join();
    EXPECT_TRUE(events->wait_for(LockEventType::heartbeat, 4));
    EXPECT_EQ(lock->extend(), Ownership::held);
  });
}

// Redis refuses, on a node of a cluster, a command or a script that touches keys of two slots, and
// a script that touches a key which it has not declared.
TEST(LockClusterTest, EveryKeyOfALockIsInOneSlotAndDeclared) {
  const FreePort bus;
  const RedisServer redis{
      {.config_lines = {"cluster-enabled yes", "cluster-port " + std::to_string(bus.number())}}};
  ASSERT_EQ(redis.command({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"}).string, "OK");
  ASSERT_TRUE(eventually(
      [&] {
        return redis.command({"CLUSTER", "INFO"}).string.find("cluster_state:ok") !=
               std::string::npos;
      },
      patience));

  const std::string uri = "redis+cluster://127.0.0.1:" + std::to_string(redis.port());
  LockClient client{uri, as_new_runner()};
  LockClient other{uri, as_new_runner()};
  for (const std::string name : {"a", "invoice:42", "with space", "ümlaut"}) {
    Lock lock = client.acquire(name).value();
    for (const auto& key : redis.keys("lh:*")) {
      EXPECT_TRUE(key.starts_with(key_of(name)) || key.ends_with(":fence")) << key;
    }
    EXPECT_EQ(redis.command({"CLUSTER", "KEYSLOT", key_of(name)}).integer,
              redis.command({"CLUSTER", "KEYSLOT", fence_key_of(name)}).integer);
    EXPECT_EQ(lock.extend(), Ownership::held);
    EXPECT_EQ(other.status(name)->token, lock.token());
    EXPECT_FALSE(other.acquire(name, {.on_conflict = OnConflict::fail_fast}));
    EXPECT_FALSE(other.acquire(name, {.wait = 0ms, .on_conflict = OnConflict::steal_stale}));
    Lock forced = other.acquire(name, {.on_conflict = OnConflict::force}).value();
    EXPECT_EQ(lock.extend(), Ownership::lost);
    EXPECT_EQ(forced.release(), Release::done);

    const Lock again = client.acquire(name).value();
    EXPECT_TRUE(other.force_release(name));
  }
  {
    const Lock stale =
        client.acquire("stale", {.ttl = 50ms, .heartbeat = Heartbeat::manual}).value();
    EXPECT_TRUE(eventually([&] { return other.cleanup_stale().size() == 1; }));
  }
  EXPECT_TRUE(other.list().empty());
  expect_nothing_left(redis);
}

}  // namespace
}  // namespace leasehold::testing
