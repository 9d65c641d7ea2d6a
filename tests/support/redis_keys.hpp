#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "harness/redis_server.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/lock_clients.hpp"
#include "tests/support/shared_servers.hpp"
#include "tests/support/signal.hpp"
#include "tests/support/test_namespace.hpp"

// The keys of locks in Redis, seen from outside.

namespace leasehold::testing {

inline std::string key_of(std::string_view lock) { return "lh:{" + std::string(lock) + "}"; }
inline std::string fence_key_of(std::string_view lock) { return key_of(lock) + ":fence"; }

inline bool key_exists(const RedisEndpoint& redis, const std::string& key) {
  return redis.command({"EXISTS", key}).integer == 1;
}

/// Whether Redis knows of as many listening clients: a client that does not listen yet can lose its
/// place for a moment.
[[nodiscard]] inline ::testing::AssertionResult all_listen(const RedisEndpoint& redis,
                                                           std::size_t clients) {
  return eventually(
      [&] {
        return redis.command({"PUBSUB", "CHANNELS", "lh:client:*"}).elements.size() == clients;
      },
      patience);
}

/// Nothing but token counters that expire may remain of locks that nobody holds.
inline void expect_nothing_left(const RedisEndpoint& redis, const std::string& pattern = "*") {
  for (const std::string& key : redis.keys(pattern)) {
    EXPECT_TRUE(key.starts_with("lh:{") && key.ends_with("}:fence")) << "left behind: " << key;
    // One that has expired meanwhile answers -2.
    EXPECT_NE(redis.command({"PTTL", key}).integer, -1) << "never expires: " << key;
  }
}

/// Makes a program fail if its tests left a key in the shared Redis.
class NoKeyIsLeft final : public ::testing::Environment {
 public:
  void TearDown() override {
    if (shared_redis_is_used()) expect_nothing_left(shared_redis(), "lh:{" + name_prefix() + "*");
  }
};
inline const ::testing::Environment* const no_key_is_left =
    ::testing::AddGlobalTestEnvironment(new NoKeyIsLeft);

}  // namespace leasehold::testing
