#pragma once

#include <algorithm>
#include <chrono>

#include "leasehold/lock.hpp"

namespace leasehold::inline v0 {

using Deadline = std::chrono::steady_clock::time_point;

/// When a wait ends that starts at `start`. LockOptions::forever never ends: Deadline::max().
inline Deadline deadline_after(std::chrono::milliseconds wait,
                               Deadline start = std::chrono::steady_clock::now()) {
  if (wait == LockOptions::forever) return Deadline::max();
  const std::chrono::milliseconds longest = std::chrono::hours{24 * 365};
  return start + std::clamp(wait, std::chrono::milliseconds{0}, longest);
}

/// Negative after the deadline. Without one it is so long that it never ends, but can be added to.
inline std::chrono::milliseconds time_left(Deadline deadline) {
  if (deadline == Deadline::max()) return std::chrono::milliseconds::max() / 2;
  return std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
}

/// The time that is left, as LockOptions::wait.
inline std::chrono::milliseconds wait_until(Deadline deadline) {
  if (deadline == Deadline::max()) return LockOptions::forever;
  return std::max(std::chrono::milliseconds{0}, time_left(deadline));
}

}  // namespace leasehold::inline v0
