#pragma once

#include <chrono>
#include <climits>
#include <cstdint>

#include "support/futex.hpp"

namespace leasehold::inline v0 {

/// Many threads wait, each for a word of its own, and one system call wakes them all. A thread that
/// woke the others one by one would be interrupted by each of them in turn.
class Bell {
 public:
  using Word = futex::Word;

  /// Waits until the word is not 0; returns it.
  std::uint32_t wait(const Word& word) noexcept { return wait(word, nullptr); }

  /// Waits until the word is not 0 or until the deadline; returns the word.
  std::uint32_t wait_until(const Word& word,
                           std::chrono::steady_clock::time_point deadline) noexcept {
    const timespec until = futex::to_timespec(deadline);
    return wait(word, &until);
  }

  /// Wakes all threads, after words were set. A thread whose word is still 0 goes on waiting.
  void ring() noexcept {
    rung_.fetch_add(1, std::memory_order_release);
    futex::wake(&rung_, INT_MAX);
  }

 private:
  std::uint32_t wait(const Word& word, const timespec* until) noexcept {
    for (;;) {
      // In this order: a ring between the two is either seen in the word or ends the wait at once.
      const auto seen = rung_.load(std::memory_order_acquire);
      if (const auto told = word.load(std::memory_order_acquire)) return told;
      if (futex::wait(rung_, seen, until) == futex::Wake::deadline) {
        return word.load(std::memory_order_acquire);
      }
    }
  }

  Word rung_{0};
};

}  // namespace leasehold::inline v0
