#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>

namespace leasehold::inline v0::futex {

/// A number that threads of this process wait for.
using Word = std::atomic<std::uint32_t>;
static_assert(sizeof(Word) == sizeof(std::uint32_t));

/// A deadline as the kernel takes it: an absolute time on CLOCK_MONOTONIC, which steady_clock is.
inline timespec to_timespec(std::chrono::steady_clock::time_point deadline) noexcept {
  using namespace std::chrono;
  const auto since_boot = deadline.time_since_epoch();
  const auto whole = duration_cast<seconds>(since_boot);
  return {whole.count(), duration_cast<nanoseconds>(since_boot - whole).count()};
}

enum class Wake { perhaps, deadline };

/// Sleeps while `word` is `expected`, until somebody wakes it or until the deadline, if there is
/// one. May return early.
inline Wake wait(const Word& word, std::uint32_t expected, const timespec* deadline) noexcept {
  const long result = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected, deadline,
                              nullptr, FUTEX_BITSET_MATCH_ANY);
  return result != 0 && errno == ETIMEDOUT ? Wake::deadline : Wake::perhaps;
}

/// Wakes up to `count` threads. Only the address is used: the word itself may be gone.
inline void wake(const Word* word, int count) noexcept {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace leasehold::inline v0::futex
