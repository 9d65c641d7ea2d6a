// Like test_support_test: a slot that does not move makes every test of moving slots pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "harness/redis_cluster.hpp"
#include "harness/resp_client.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

// On a machine that stands still for a moment, no replica takes over.
const RedisClusterOptions calm_cluster = {.node_timeout = 60s};

// Of the hash tag {tag}.
std::vector<std::string> tagged_keys(int number) {
  std::vector<std::string> keys;
  for (int i = 0; i < number; ++i) keys.push_back("{tag}" + std::to_string(i));
  std::sort(keys.begin(), keys.end());
  return keys;
}

// Any other primary.
RedisServer& primary_without(const RedisCluster& cluster, const RedisServer& owner) {
  const auto all = cluster.primaries();
  return **std::find_if(all.begin(), all.end(), [&](const auto* each) { return each != &owner; });
}

int number_of(const RedisCluster& cluster, const RedisServer& node) {
  int i = 0;
  while (&cluster.node(i) != &node) ++i;
  return i;
}

TEST(RedisClusterTest, IsReadyInTheViewOfEveryNode) {
  const RedisCluster cluster{calm_cluster};
  for (int i = 0; i < RedisCluster::node_count; ++i) {
    const std::string info = cluster.node(i).command({"CLUSTER", "INFO"}).string;
    EXPECT_NE(info.find("cluster_state:ok"), std::string::npos) << info;
    EXPECT_NE(info.find("cluster_slots_ok:16384"), std::string::npos) << info;
    EXPECT_NE(info.find("cluster_known_nodes:6"), std::string::npos) << info;
    EXPECT_NE(info.find("cluster_size:3"), std::string::npos) << info;
    EXPECT_EQ(cluster.node(i).command({"ROLE"}).elements.at(0).string, i < 3 ? "master" : "slave");
  }
  EXPECT_EQ(cluster.primaries(),
            (std::vector<RedisServer*>{&cluster.node(0), &cluster.node(1), &cluster.node(2)}));
  EXPECT_EQ(cluster.uri(), "redis+cluster://127.0.0.1:" + std::to_string(cluster.node(0).port()) +
                               ",127.0.0.1:" + std::to_string(cluster.node(1).port()) +
                               ",127.0.0.1:" + std::to_string(cluster.node(2).port()));
}

TEST(RedisClusterTest, FindsKeysOnThePrimariesThatOwnThem) {
  const RedisCluster cluster{calm_cluster};
  const RedisEndpoint& redis = cluster;
  for (const std::string key : {"a", "b", "c", "{a}", "x{a}y", "{}a", "{a", "", "a\nb", "\xff"}) {
    EXPECT_EQ(redis.command({"SET", key, "v"}).string, "OK");
    EXPECT_EQ(redis.command({"CLUSTER", "KEYSLOT", key}).integer, RedisCluster::slot_of(key));
    EXPECT_EQ(cluster.primary_of(key).command({"GET", key}).string, "v");
    EXPECT_EQ(redis.command({"EVAL", "return redis.call('GET', KEYS[1])", "1", key}).string, "v");
    // The place of the first key depends on the command.
    EXPECT_EQ(redis.command({"OBJECT", "REFCOUNT", key}).type, harness::RedisReply::Type::integer);
  }
  std::size_t keys = 0;
  for (const RedisServer* each : cluster.primaries()) {
    EXPECT_FALSE(each->keys("*").empty());
    keys += each->keys("*").size();
  }
  EXPECT_EQ(keys, 10U);
  EXPECT_EQ(redis.keys("*").size(), 10U);
  EXPECT_EQ(redis.keys("[a-c]"), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(redis.command({"PING"}).string, "PONG");
  EXPECT_TRUE(redis.command({"NO-SUCH-COMMAND", "a"}).is_error());
  EXPECT_EQ(redis.command({"FLUSHALL"}).string, "OK");
  EXPECT_TRUE(redis.keys("*").empty());
}

TEST(RedisClusterTest, DoesNotReturnSomeOfTheKeysForAll) {
  const RedisCluster cluster{calm_cluster};
  cluster.command({"SET", "k", "v"});
  RedisServer& owner = cluster.primary_of("k");
  owner.pause();
  EXPECT_ANY_THROW(cluster.keys("*"));
  EXPECT_ANY_THROW(cluster.command({"GET", "k"}));
  EXPECT_ANY_THROW(cluster.primary_of("k"));
  EXPECT_EQ(cluster.primaries().size(), 2U);
  owner.resume();
  EXPECT_EQ(cluster.keys("*"), std::vector<std::string>{"k"});
}

TEST(RedisClusterTest, ListsTheChannelsOfAllNodes) {
  const RedisCluster cluster{calm_cluster};
  std::vector<RespClient> clients;
  for (const int i : {0, 1, 4}) {
    clients.emplace_back(cluster.node(i).address());
    clients.back().command({"SUBSCRIBE", "everywhere"});
    clients.emplace_back(cluster.node(i).address());
    clients.back().command({"SUBSCRIBE", "at-" + std::to_string(i)});
  }
  std::vector<std::string> channels;
  for (const auto& each : cluster.command({"PUBSUB", "CHANNELS", "*"}).elements) {
    channels.push_back(each.string);
  }
  EXPECT_EQ(channels, (std::vector<std::string>{"at-0", "at-1", "at-4", "everywhere"}));
}

TEST(RedisClusterTest, TakesPasswordAndConfiguration) {
  RedisCluster cluster{{
      .servers = {.password = "secret", .config_lines = {"maxmemory 20mb"}},
      .node_timeout = 60s,
  }};
  EXPECT_TRUE(cluster.uri().starts_with("redis+cluster://:secret@127.0.0.1:"));
  EXPECT_EQ(cluster.node(5).command({"CONFIG", "GET", "maxmemory"}).elements.at(1).string,
            "20971520");
  cluster.command({"SET", "k", "v"});
  RedisServer& owner = cluster.primary_of("k");
  cluster.move_slot(RedisCluster::slot_of("k"), owner, primary_without(cluster, owner));
  EXPECT_NE(&cluster.primary_of("k"), &owner);
  EXPECT_EQ(cluster.command({"GET", "k"}).string, "v");
}

TEST(RedisClusterTest, MovedSlotHasAllItsKeys) {
  RedisCluster cluster{calm_cluster};
  const auto keys = tagged_keys(50);
  for (const auto& key : keys) cluster.command({"SET", key, "value of " + key, "EX", "1000"});
  RedisServer& from = cluster.primary_of(keys[0]);
  RedisServer& to = primary_without(cluster, from);
  const auto find_all = [&] {
    EXPECT_EQ(cluster.keys("*"), keys);
    for (const auto& key : keys) EXPECT_EQ(cluster.command({"GET", key}).string, "value of " + key);
  };

  std::map<SlotMove, int> steps;
  cluster.move_slot(RedisCluster::slot_of(keys[0]), from, to, [&](SlotMove step) {
    ++steps[step];
    find_all();
    EXPECT_EQ(&cluster.primary_of(keys[0]), step == SlotMove::target_owns ? &to : &from);
    EXPECT_EQ(from.keys("*").empty(),
              step == SlotMove::keys_moved || step == SlotMove::target_owns);
    EXPECT_EQ(to.keys("*").empty(), step == SlotMove::opened);
  });
  EXPECT_EQ(steps[SlotMove::opened], 1);
  EXPECT_GT(steps[SlotMove::part_moved], 1);
  EXPECT_EQ(steps[SlotMove::keys_moved], 1);
  EXPECT_EQ(steps[SlotMove::target_owns], 1);
  find_all();
  EXPECT_GT(to.command({"TTL", keys[0]}).integer, 0);
  EXPECT_TRUE(from.command({"GET", keys[0]}).string.starts_with("MOVED "));
  cluster.await_ready();
}

TEST(RedisClusterTest, WritesFollowAKeyWhileItsSlotMoves) {
  RedisCluster cluster{calm_cluster};
  const auto keys = tagged_keys(4);
  for (const auto& key : keys) cluster.command({"SET", key, "0"});
  RedisServer& from = cluster.primary_of(keys[0]);
  cluster.move_slot(RedisCluster::slot_of(keys[0]), from, primary_without(cluster, from),
                    [&](SlotMove) {
                      for (const auto& key : keys) cluster.command({"INCR", key});
                      cluster.command({"INCR", "{tag}new"});
                    });
  const std::string steps = cluster.command({"GET", "{tag}new"}).string;
  EXPECT_GE(std::stoi(steps), 4);
  for (const auto& key : keys) EXPECT_EQ(cluster.command({"GET", key}).string, steps);
}

TEST(RedisClusterTest, ReplicaTakesOverFromAKilledPrimary) {
  RedisCluster cluster;
  cluster.command({"SET", "k", "v"});
  RedisServer& former = cluster.primary_of("k");
  ASSERT_EQ(former.command({"WAIT", "1", "60000"}).integer, 1);
  const int number = number_of(cluster, former);
  former.kill();
  RedisServer& primary = cluster.await_takeover(number);
  EXPECT_NE(&primary, &former);
  EXPECT_EQ(&cluster.primary_of("k"), &primary);
  EXPECT_EQ(cluster.command({"GET", "k"}).string, "v");

  former.start();
  cluster.await_ready();
  EXPECT_EQ(former.command({"ROLE"}).elements.at(0).string, "slave");
  EXPECT_EQ(former.keys("*"), std::vector<std::string>{"k"});
}

TEST(RedisClusterTest, ReplicaTakesOverFromAPausedPrimaryThatLearnsOfIt) {
  RedisCluster cluster;
  RedisServer& former = cluster.primary_of("k");
  const int number = number_of(cluster, former);
  former.pause();
  RedisServer& primary = cluster.await_takeover(number);
  former.resume();
  cluster.await_ready();
  EXPECT_EQ(&cluster.primary_of("k"), &primary);
  EXPECT_EQ(former.command({"ROLE"}).elements.at(0).string, "slave");
}

TEST(RedisClusterTest, OrderlyFailoverThereAndBack) {
  RedisCluster cluster{calm_cluster};
  cluster.command({"SET", "k", "v"});
  const int number = number_of(cluster, cluster.primary_of("k"));
  cluster.fail_over(number);
  EXPECT_EQ(&cluster.await_takeover(number), &cluster.node(number + 3));
  EXPECT_EQ(cluster.command({"GET", "k"}).string, "v");
  cluster.await_ready();
  cluster.fail_over(number + 3);
  EXPECT_EQ(&cluster.await_takeover(number + 3), &cluster.node(number));
  EXPECT_EQ(&cluster.primary_of("k"), &cluster.node(number));
  EXPECT_EQ(cluster.command({"GET", "k"}).string, "v");
}

TEST(RedisClusterTest, NodeThatLosesItsDataKeepsItsPlace) {
  RedisCluster cluster{calm_cluster};
  cluster.command({"SET", "k", "v"});
  const int number = number_of(cluster, cluster.primary_of("k"));
  RedisServer& replica = cluster.node(number + 3);
  replica.restart(Data::lost);
  cluster.await_ready();
  EXPECT_EQ(replica.keys("*"), std::vector<std::string>{"k"});
}

}  // namespace
}  // namespace leasehold::testing
