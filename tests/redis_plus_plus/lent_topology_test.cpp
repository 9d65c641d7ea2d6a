// Locks through redis-plus-plus with sentinels and in a cluster.
#include <gtest/gtest.h>
#include <sw/redis++/redis++.h>

#include <memory>
#include <string>
#include <vector>

#include "harness/redis_cluster.hpp"
#include "harness/redis_sentinels.hpp"
#include "leasehold/redis_plus_plus.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/link_calls.hpp"
#include "tests/support/lock_clients.hpp"
#include "tests/support/redis_keys.hpp"
#include "tests/support/test_namespace.hpp"
#include "tests/support/waiter.hpp"

namespace leasehold::testing {
namespace {

sw::redis::ConnectionOptions brief_options() {
  sw::redis::ConnectionOptions options;
  options.connect_timeout = 2s;
  options.socket_timeout = 2s;
  return options;
}

TEST(LentSentinel, LocksOutliveAPrimaryThatIsKilled) {
  RedisSentinels redis;
  sw::redis::SentinelOptions sentinels;
  for (int i = 0; i < RedisSentinels::sentinel_count; ++i) {
    sentinels.nodes.emplace_back("127.0.0.1", redis.sentinel(i).port());
  }
  sentinels.connect_timeout = sentinels.socket_timeout = 2s;
  const auto lent =
      std::make_shared<sw::redis::Redis>(std::make_shared<sw::redis::Sentinel>(sentinels),
                                         "leasehold", sw::redis::Role::MASTER, brief_options());
  LockClient client{lend_redis(lent), as_new_runner()};
  Lock kept = client.acquire("kept", {.ttl = 120s}).value();
  RedisServer& old = redis.primary();
  ASSERT_TRUE(eventually([&] {
    return key_exists(redis.server(1), key_of("kept")) &&
           key_exists(redis.server(2), key_of("kept"));
  }));
  old.kill();
  const Lock later = client.acquire("another", {.wait = 120s}).value();
  EXPECT_TRUE(key_exists(redis.await_primary_other_than(old.port()), key_of("another")));
  EXPECT_EQ(kept.extend(), Ownership::held);
  EXPECT_EQ(kept.release(), Release::done);
}

class LentCluster : public ::testing::Test {
 protected:
  std::shared_ptr<RedisLink> lent() const {
    auto options = brief_options();
    options.host = redis.address().host;
    options.port = redis.port();
    sw::redis::RedisCluster cluster{options};
    return lend_redis(cluster);
  }

  RedisCluster redis;
  std::shared_ptr<RedisLink> link = lent();
  LockClient client{link, as_new_runner()};
  LockClient other{lent(), as_new_runner()};
};

TEST_F(LentCluster, LocksOnAllNodesAreTakenListedAndReleased) {
  std::vector<std::string> names;
  for (int i = 0; i < 30; ++i) names.push_back("lock " + std::to_string(i));
  {
    auto all = client.acquire_all(names, {.ttl = 60s});
    ASSERT_TRUE(all);
    EXPECT_EQ(client.list().size(), names.size());
    EXPECT_EQ(link->primaries().size(), std::size_t{RedisCluster::primary_count});
    EXPECT_FALSE(other.acquire("lock 7", {.on_conflict = OnConflict::fail_fast}));
  }
  EXPECT_TRUE(client.list().empty());
  EXPECT_TRUE(other.acquire("lock 7"));
}

TEST_F(LentCluster, ReleaseHandsTheLockToTheNextInLineOnEveryNode) {
  for (const std::string name : {"a", "b", "c", "d", "e", "f"}) {
    Lock lock = client.acquire(name, {.ttl = 60s}).value();
    Waiter waiter{other, name, {.ttl = 60s, .wait = 60s}};
    ASSERT_TRUE(eventually([&] { return line_length(client, name) == 1; }));
    EXPECT_EQ(lock.release(), Release::done);
    ASSERT_TRUE(waiter.got_it()) << name;
  }
}

TEST_F(LentCluster, HeartbeatsKeepLocksOfAllNodes) {
  std::vector<Lock> locks;
  for (int i = 0; i < 12; ++i) {
    locks.push_back(client.acquire("lock " + std::to_string(i), {.ttl = 2s}).value());
  }
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(eventually([&] { return std::chrono::steady_clock::now() - began > 4s; }));
  for (Lock& lock : locks) EXPECT_EQ(lock.release(), Release::done);
}

TEST_F(LentCluster, LockMovesWithItsSlot) {
  Lock lock = client.acquire("lock", {.ttl = 120s}).value();
  RedisServer& from = redis.primary_of(key_of("lock"));
  RedisServer* to = nullptr;
  for (RedisServer* node : redis.primaries()) {
    if (node != &from) to = node;
  }
  redis.move_slot(RedisCluster::slot_of(key_of("lock")), from, *to,
                  [&](harness::SlotMove) { EXPECT_EQ(lock.extend(), Ownership::held); });
  EXPECT_EQ(lock.extend(), Ownership::held);
  EXPECT_EQ(lock.release(), Release::done);
  EXPECT_TRUE(client.acquire("lock"));
}

TEST_F(LentCluster, GrantCountsOnceAReplicaHasIt) {
  auto options = as_new_runner();
  options.replicas = {.needed = RedisReplicas::Needed::all, .timeout = 500ms};
  LockClient confirmed{lent(), options};
  const Lock lock = confirmed.acquire("lock", {.wait = 60s}).value();
  int number = 0;
  while (&redis.node(number) != &redis.primary_of(key_of("lock"))) ++number;
  const RedisServer& replica = redis.node(number + RedisCluster::primary_count);
  EXPECT_GT(replica.command({"DBSIZE"}).integer, 0);
}

TEST_F(LentCluster, NodeThatHangsDoesNotCostTheLocksOfOthers) {
  const Lock hangs = client.acquire("lock", {.ttl = 60s, .heartbeat_every = 50ms}).value();
  RedisServer& node = redis.primary_of(key_of("lock"));
  std::string elsewhere;
  for (int i = 0; elsewhere.empty(); ++i) {
    const std::string name = "lock " + std::to_string(i);
    if (&redis.primary_of(key_of(name)) != &node) elsewhere = name;
  }
  const Lock lives = client.acquire(elsewhere, {.ttl = 2s}).value();
  node.pause();
  const auto trusted = lives.valid_until();
  EXPECT_TRUE(eventually([&] { return lives.valid_until() > trusted + 6s; }, 60s));
  EXPECT_FALSE(lives.lost().stop_requested());
  node.resume();
}

TEST_F(LentCluster, LocksWorkAgainAfterAPrimaryWasKilled) {
  const Lock kept = client.acquire("lock", {.ttl = 120s}).value();
  RedisServer& old = redis.primary_of(key_of("lock"));
  int number = 0;
  while (&redis.node(number) != &old) ++number;
  // What was written before has reached the replica together with this.
  old.command({"SET", key_of("lock") + ":probe", "1"});
  ASSERT_GE(old.command({"WAIT", "1", "60000"}).integer, 1);
  old.kill();
  redis.await_takeover(number);
  EXPECT_TRUE(eventually(
      [&] {
        try {
          const auto status = client.status("lock");
          return status && status->token == kept.token();
        } catch (const Error&) {
          return false;
        }
      },
      60s));
}

}  // namespace
}  // namespace leasehold::testing
