#pragma once

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "leasehold/locks.hpp"
#include "support/thread_safety.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/test_namespace.hpp"

// For what cannot work on a machine that stands still: a holder that sends no heartbeat in time
// loses its lock, and a waiter that does not take its turn within a second loses that. It is right
// that they do, and not what most tests are about.

namespace leasehold::testing {

/// Runs `scenario`. If it fails, and the machine left it without time, it is run again and nobody
/// hears of the failure; but what has failed five times has failed. `watch` returns, for each try,
/// what tells whether that was starved(). The scenario starts from the beginning each time.
template <class Watch, class Scenario>
void repeat_if_starved(const Watch& watch, const Scenario& scenario) {
  constexpr int most = 5;
  for (int tries = 1;; ++tries) {
    ::testing::TestPartResultArray results;
    std::vector<::testing::TestPartResult> failures;
    std::exception_ptr thrown;
    bool starved = false;
    {
      auto watching = watch();
      const ::testing::ScopedFakeTestPartResultReporter held_back{
          ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &results};
      try {
        scenario();
      } catch (...) {
        thrown = std::current_exception();
      }
      for (int i = 0; i < results.size(); ++i) {
        if (results.GetTestPartResult(i).failed()) failures.push_back(results.GetTestPartResult(i));
      }
      starved = (thrown || !failures.empty()) && watching.starved();
    }
    if (starved && tries < most) {
      std::cout << "[ STARVED  ] try " << tries << " of " << most << '\n';
      for (const auto& failure : failures) std::cout << failure.message() << '\n';
      continue;
    }
    for (const auto& failure : failures) {
      ADD_FAILURE_AT(failure.file_name() ? failure.file_name() : "?", failure.line_number())
          << failure.message();
    }
    if (thrown) std::rethrow_exception(thrown);
    return;
  }
}

/// Measures for how long at a time this machine stands still, or the server that is asked.
class StallWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// `ask` waits for an answer of the server, if that should not stand still either.
  explicit StallWatch(
      std::chrono::milliseconds limit, std::function<void()> ask = [] {})
      : limit_(limit), thread_([this, ask = std::move(ask)](const std::stop_token& stop) {
          ThreadLock guard(mutex_);
          while (!stop.stop_requested()) {
            guard.unlock();
            try {
              ask();
            } catch (const std::exception&) {
              // No answer: what counts is how long that took.
            }
            guard.lock();
            note();
            woken_.wait_for(guard, stop, std::chrono::milliseconds{10}, [] { return false; });
          }
        }) {}

  /// Whether it has stood still for longer than the limit.
  bool starved() {
    const ThreadLock guard(mutex_);
    note();  // perhaps it still does
    return longest_ > limit_;
  }

  /// For how long it has stood still altogether, in stalls that are longer than the limit.
  Clock::duration time_lost() {
    const ThreadLock guard(mutex_);
    note();
    return lost_;
  }

 private:
  void note() LEASEHOLD_REQUIRES(mutex_) {
    const auto now = Clock::now();
    longest_ = std::max(longest_, now - last_);
    if (now - last_ > limit_) lost_ += now - last_;
    last_ = now;
  }

  const std::chrono::milliseconds limit_;
  ThreadMutex mutex_;
  StoppableCondition woken_;
  Clock::time_point last_ LEASEHOLD_GUARDED_BY(mutex_) = Clock::now();
  Clock::duration longest_ LEASEHOLD_GUARDED_BY(mutex_){0};
  Clock::duration lost_ LEASEHOLD_GUARDED_BY(mutex_){0};
  std::jthread thread_;  // last, because it uses the others
};

/// For a scenario that fails if this process gets no time for longer than the limit.
template <class Scenario>
void repeat_if_stalled(std::chrono::milliseconds limit, const Scenario& scenario) {
  repeat_if_starved([&] { return StallWatch{limit}; }, scenario);
}

/// Sees that a waiter was taken for dead or frozen: it did not take its turn within a second.
class EvictionWatch {
 public:
  explicit EvictionWatch(std::vector<LockClient*> clients)
      : clients_(std::move(clients)), before_(evicted()) {}

  /// Evictions are heard of by a reply, which may come later than the word to whom it was good for.
  bool starved() const {
    return static_cast<bool>(
        eventually([this] { return evicted() > before_; }, std::chrono::seconds{2}));
  }

 private:
  std::uint64_t evicted() const {
    std::uint64_t sum = 0;
    for (LockClient* client : clients_) sum += client->stats().waiters_evicted;
    return sum;
  }

  const std::vector<LockClient*> clients_;
  const std::uint64_t before_;
};

}  // namespace leasehold::testing
