#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>

namespace leasehold::inline v0 {

/// One thread waits, another one tells it a non-zero word. A bare futex: half the cost of a
/// condition variable, and the waiter may destroy the event as soon as it was told (a late
/// wake-up only touches the address, which at worst wakes somebody for nothing).
class Event {
 public:
  /// Waits until told or until the deadline; returns the word, 0 if there is none yet.
  std::uint32_t wait_until(std::chrono::steady_clock::time_point deadline) noexcept {
    using namespace std::chrono;
    const auto since_boot = deadline.time_since_epoch();
    const auto whole = duration_cast<seconds>(since_boot);
    const timespec until{whole.count(), duration_cast<nanoseconds>(since_boot - whole).count()};
    for (;;) {
      if (const auto word = word_.load(std::memory_order_acquire)) return word;
      // FUTEX_WAIT_BITSET takes an absolute time on CLOCK_MONOTONIC, which steady_clock is.
      const long result = syscall(SYS_futex, address(), FUTEX_WAIT_BITSET_PRIVATE, 0, &until,
                                  nullptr, FUTEX_BITSET_MATCH_ANY);
      if (result != 0 && errno == ETIMEDOUT) return word_.load(std::memory_order_acquire);
    }
  }

  void tell(std::uint32_t word) noexcept {
    std::uint32_t* const where = address();  // `this` may be gone right after the store
    word_.store(word, std::memory_order_release);
    syscall(SYS_futex, where, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }

  /// For the waiter, to wait once more.
  void clear() noexcept { word_.store(0, std::memory_order_relaxed); }

 private:
  std::uint32_t* address() noexcept { return reinterpret_cast<std::uint32_t*>(&word_); }

  std::atomic<std::uint32_t> word_{0};
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
};

}  // namespace leasehold::inline v0
