#pragma once

#include <chrono>
#include <cstdint>

#include "support/futex.hpp"

namespace leasehold::inline v0 {

/// One thread waits until another one tells it a number other than 0. This is a bare futex: it
/// costs half as much as a condition variable, and the waiter may destroy the event as soon as it
/// was told. (A late wake-up uses only the address: at worst it wakes a thread that has to wait
/// again.)
class Event {
 public:
  /// Waits until told or until the deadline. Returns the number, or 0 if there is none yet.
  std::uint32_t wait_until(std::chrono::steady_clock::time_point deadline) noexcept {
    const timespec until = futex::to_timespec(deadline);
    for (;;) {
      if (const auto told = word_.load(std::memory_order_acquire)) return told;
      if (futex::wait(word_, 0, &until) == futex::Wake::deadline) {
        return word_.load(std::memory_order_acquire);
      }
    }
  }

  void tell(std::uint32_t number) noexcept {
    const auto* const where = &word_;  // `this` may be gone right after the store
    word_.store(number, std::memory_order_release);
    futex::wake(where, 1);
  }

  /// For the waiter, to wait once more.
  void clear() noexcept { word_.store(0, std::memory_order_relaxed); }

 private:
  futex::Word word_{0};
};

}  // namespace leasehold::inline v0
