#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>

namespace leasehold::testing {

/// Asks `predicate` again and again until it is true; fails when `timeout` has passed. For what can
/// only be seen from outside: where an event can be waited for, wait for that.
///
///     EXPECT_TRUE(eventually([&] { return redis.keys("*").empty(); }));
template <typename Predicate>
[[nodiscard]] ::testing::AssertionResult eventually(
    Predicate&& predicate, std::chrono::milliseconds timeout = std::chrono::seconds{10}) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    // Before asking: the predicate always gets one chance after the last sleep.
    const bool last = std::chrono::steady_clock::now() >= deadline;
    if (std::forward<Predicate>(predicate)()) return ::testing::AssertionSuccess();
    if (last) {
      return ::testing::AssertionFailure() << "still false after " << timeout.count() << " ms";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
}

}  // namespace leasehold::testing
