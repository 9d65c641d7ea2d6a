#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

namespace leasehold::inline v0 {

/// Many threads wait, each for a word of its own, and one system call wakes them all. A thread that
/// wakes others one by one is interrupted by each of them in turn; here it is not.
class Bell {
 public:
  using Word = std::atomic<std::uint32_t>;

  /// Waits until the word is not 0; returns it.
  std::uint32_t wait(const Word& word) noexcept { return wait(word, nullptr); }

  /// Waits until the word is not 0 or until the deadline; returns the word.
  std::uint32_t wait_until(const Word& word,
                           std::chrono::steady_clock::time_point deadline) noexcept {
    using namespace std::chrono;
    const auto since_boot = deadline.time_since_epoch();
    const auto whole = duration_cast<seconds>(since_boot);
    const timespec until{whole.count(), duration_cast<nanoseconds>(since_boot - whole).count()};
    return wait(word, &until);
  }

  /// Wakes all, after words were set. Who still finds a 0 goes on waiting.
  void ring() noexcept {
    rung_.fetch_add(1, std::memory_order_release);
    syscall(SYS_futex, &rung_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }

 private:
  std::uint32_t wait(const Word& word, const timespec* until) noexcept {
    for (;;) {
      // In this order: a ring between the two is either seen in the word or ends the wait at once.
      const auto seen = rung_.load(std::memory_order_acquire);
      if (const auto told = word.load(std::memory_order_acquire)) return told;
      // FUTEX_WAIT_BITSET takes an absolute time on CLOCK_MONOTONIC, which steady_clock is.
      const long result = syscall(SYS_futex, &rung_, FUTEX_WAIT_BITSET_PRIVATE, seen, until,
                                  nullptr, FUTEX_BITSET_MATCH_ANY);
      if (result != 0 && errno == ETIMEDOUT) return word.load(std::memory_order_acquire);
    }
  }

  Word rung_{0};
  static_assert(sizeof(Word) == sizeof(std::uint32_t));
};

}  // namespace leasehold::inline v0
