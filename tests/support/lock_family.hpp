#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "tests/support/lock_store.hpp"

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

}  // namespace leasehold::testing
