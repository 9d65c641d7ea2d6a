#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include "tests/support/lock_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// Two clients of one store. Nothing may be held when a test has ended.
template <class Store>
class LockFixture : public Store {
 protected:
  void TearDown() override {
    // What was lost on purpose is stale as soon as the server thinks so too; nothing may be held.
    EXPECT_TRUE(eventually([&] {
      other.cleanup_stale(name + "*");
      return other.list(name + "*").empty();
    }));
  }

  /// A lock whose lease has ended without a release.
  void leave_stale(const std::string& which) {
    auto lock = client.acquire(which, {.ttl = 50ms, .heartbeat = Heartbeat::manual}).value();
    ASSERT_TRUE(wait_for_stop(lock.lost()));
    ASSERT_TRUE(eventually([&] { return client.status(which)->state == LockState::stale; }));
  }

  std::string name = name_for_test();
  std::stop_source stop;  // of the acquire
  std::shared_ptr<EventRecorder> events = std::make_shared<EventRecorder>();
  LockClient client{this->store.uri(), as_new_runner(events)};
  LockClient other{this->store.uri(), as_new_runner()};
};

}  // namespace leasehold::testing
