// Like test_support_test: a failover that does not happen makes every test of failovers pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "harness/redis_sentinels.hpp"
#include "harness/resp_client.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

std::string role_of(const RedisEndpoint& redis) {
  return redis.command({"ROLE"}).elements.at(0).string;
}

std::string primary_port_by(const RedisSentinel& sentinel) {
  return sentinel.command({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "leasehold"})
      .elements.at(1)
      .string;
}

// Each sentinel that gives a server another role also closes the connections of its clients. So
// this one tries again, also when there is no reply.
[[nodiscard]] ::testing::AssertionResult eventually_on(
    const RedisEndpoint& redis, const std::function<bool(const RedisEndpoint&)>& predicate) {
  return eventually(
      [&] {
        try {
          return predicate(redis);
        } catch (const std::exception&) {
          return false;
        }
      },
      60s);
}

// On a machine that stands still for a moment, nothing is replaced that the test needs.
const RedisSentinelsOptions calm_sentinels = {.down_after = 60s};

TEST(RedisSentinelsTest, IsReadyWithAPrimaryAndReplicasInSync) {
  const RedisSentinels redis{calm_sentinels};
  EXPECT_EQ(&redis.primary(), &redis.server(0));
  EXPECT_EQ(role_of(redis.server(0)), "master");
  EXPECT_EQ(redis.command({"SET", "k", "v"}).string, "OK");
  EXPECT_EQ(redis.server(0).command({"WAIT", "2", "60000"}).integer, 2);
  for (const int i : {1, 2}) {
    EXPECT_EQ(role_of(redis.server(i)), "slave");
    EXPECT_EQ(redis.server(i).keys("*"), std::vector<std::string>{"k"});
  }
  std::string hosts;
  for (int i = 0; i < RedisSentinels::sentinel_count; ++i) {
    EXPECT_EQ(primary_port_by(redis.sentinel(i)), std::to_string(redis.server(0).port()));
    hosts += (i > 0 ? ",127.0.0.1:" : "127.0.0.1:") + std::to_string(redis.sentinel(i).port());
  }
  EXPECT_EQ(redis.uri(), "redis+sentinel://" + hosts + "/leasehold");
}

TEST(RedisSentinelsTest, TakesPasswordsAndConfiguration) {
  RedisSentinels redis{{
      .servers = {.password = "secret", .config_lines = {"maxmemory 20mb"}},
      .service = "locks",
      .sentinel_password = "other",
  }};
  EXPECT_TRUE(redis.uri().starts_with("redis+sentinel://:secret@127.0.0.1:"));
  EXPECT_TRUE(redis.uri().ends_with("/locks?sentinel_password=other"));
  for (const RedisEndpoint* each : {static_cast<RedisEndpoint*>(&redis.server(1)),
                                    static_cast<RedisEndpoint*>(&redis.sentinel(1))}) {
    RedisAddress address = each->address();
    address.password.clear();
    EXPECT_TRUE(RespClient{address}.command({"INFO"}).is_error());
  }
  EXPECT_EQ(redis.server(2).command({"CONFIG", "GET", "maxmemory"}).elements.at(1).string,
            "20971520");
  redis.fail_over();
  redis.await_primary_other_than(redis.server(0).port());
}

TEST(RedisSentinelsTest, KilledPrimaryIsReplacedAndReturnsAsReplica) {
  RedisSentinels redis;
  RedisServer& former = redis.primary();
  former.command({"SET", "k", "v"});
  ASSERT_EQ(former.command({"WAIT", "2", "60000"}).integer, 2);
  former.kill();
  EXPECT_ANY_THROW(former.command({"PING"}));

  RedisServer& primary = redis.await_primary_other_than(former.port());
  EXPECT_NE(&primary, &former);
  EXPECT_EQ(&redis.primary(), &primary);
  EXPECT_TRUE(eventually_on(redis, [](const auto& server) {
    return server.command({"GET", "k"}).string == "v";
  }));
  EXPECT_TRUE(eventually_on(redis, [](const auto& server) {
    return server.command({"SET", "after", "v"}).string == "OK";
  }));

  former.start();
  EXPECT_TRUE(eventually_on(former, [](const auto& server) {
    return role_of(server) == "slave" && server.command({"GET", "after"}).string == "v";
  }));
}

TEST(RedisSentinelsTest, OrderlyFailoverKeepsData) {
  RedisSentinels redis{calm_sentinels};
  redis.command({"SET", "k", "v"});
  ASSERT_EQ(redis.server(0).command({"WAIT", "2", "60000"}).integer, 2);
  redis.fail_over();
  RedisServer& primary = redis.await_primary_other_than(redis.server(0).port());
  EXPECT_TRUE(eventually_on(primary, [](const auto& server) {
    return role_of(server) == "master" && server.command({"GET", "k"}).string == "v";
  }));
  EXPECT_TRUE(redis.server(0).is_up());
}

TEST(RedisSentinelsTest, PausedSentinelIsNotNeededAndLearnsTheNewPrimary) {
  RedisSentinels redis;
  redis.sentinel(0).pause();
  EXPECT_EQ(&redis.primary(), &redis.server(0));
  redis.server(0).kill();
  const RedisServer& primary = redis.await_primary_other_than(redis.server(0).port());
  redis.sentinel(0).resume();
  EXPECT_TRUE(eventually(
      [&] { return primary_port_by(redis.sentinel(0)) == std::to_string(primary.port()); }, 60s));
}

TEST(RedisSentinelsTest, IsReadyAgainAfterEverythingButThePrimaryWasKilled) {
  RedisSentinels redis{calm_sentinels};
  redis.command({"SET", "k", "v"});
  for (int i = 0; i < RedisSentinels::sentinel_count; ++i) redis.sentinel(i).kill();
  EXPECT_ANY_THROW(redis.primary());
  for (const int i : {1, 2}) {
    redis.server(i).kill();
    redis.server(i).start();
  }
  for (int i = 0; i < RedisSentinels::sentinel_count; ++i) redis.sentinel(i).start();
  redis.await_ready();
  EXPECT_EQ(&redis.primary(), &redis.server(0));
  EXPECT_EQ(redis.server(1).keys("*"), std::vector<std::string>{"k"});
}

TEST(RedisSentinelsTest, OneSentinelOfThreeReplacesNobodyUntilAnotherStarts) {
  RedisSentinels redis;
  redis.sentinel(0).kill();
  redis.sentinel(1).kill();
  redis.server(0).kill();
  EXPECT_TRUE(eventually(
      [&] {
        const auto master = redis.sentinel(2).command({"SENTINEL", "MASTERS"}).elements.at(0);
        return std::any_of(master.elements.begin(), master.elements.end(), [](const auto& value) {
          return value.string.find("s_down") != std::string::npos;
        });
      },
      60s));
  EXPECT_EQ(&redis.primary(), &redis.server(0));
  redis.sentinel(1).start();
  EXPECT_NE(&redis.await_primary_other_than(redis.server(0).port()), &redis.server(0));
}

}  // namespace
}  // namespace leasehold::testing
