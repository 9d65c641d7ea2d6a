#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>

#include "tests/support/event_recorder.hpp"
#include "tests/support/fault_proxy.hpp"
#include "tests/support/lock_clients.hpp"
#include "tests/support/redis_keys.hpp"
#include "tests/support/starvation.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// A client of locks behind a bad network, and one outside of it that sees what Redis thinks.
class LockNetworkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Connects everything and loads the scripts, so that the first fault hits what it is meant for.
    for (LockClient* each : {&outside, client.get()}) {
      Lock lock = each->acquire("lock").value();
      // Again if that takes longer than the time-out.
      EXPECT_TRUE(eventually([&] { return lock.extend() == Ownership::held; }));
      EXPECT_TRUE(eventually([&] { return knows_of_it(*each); }));
      before = lock.token();
    }
  }

  void TearDown() override {
    client.reset();
    outside.cleanup_stale();
    expect_nothing_left(redis);
  }

  static bool knows_of_it(LockClient& client) {
    try {
      return client.status("lock").has_value();
    } catch (const Error&) {
      return false;
    }
  }

  static LockClientOptions options(std::shared_ptr<LockObserver> observer) {
    auto options = as_new_runner(std::move(observer));
    options.redis.command_timeout = std::chrono::seconds{1};
    return options;
  }

  /// L1: the holder's own view ends before the server's.
  void expect_trust_ends_before_the_servers(const Lock& lock) {
    const auto trusted_until = lock.valid_until();
    const auto remaining = outside.status(lock.name())->remaining;
    EXPECT_LT(trusted_until, std::chrono::steady_clock::now() + remaining);
  }

  bool is_locked() { return key_exists(redis, key_of("lock")); }

  RedisServer redis;
  FaultProxy proxy{redis.port()};
  std::shared_ptr<EventRecorder> events = std::make_shared<EventRecorder>();
  LockClient outside{redis.uri(), as_new_runner()};
  std::shared_ptr<LockClient> client =
      std::make_shared<LockClient>(redis.uri_through(proxy.port()), options(events));
  FencingToken before;  // the token of the latest grant
};

}  // namespace leasehold::testing
