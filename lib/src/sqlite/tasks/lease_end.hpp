#pragma once

#include <chrono>

#include "sqlite/database/machine_clock.hpp"

namespace leasehold::inline v0::sqlite {

/// When a lease that begins now ends.
struct LeaseEnd {
  explicit LeaseEnd(std::chrono::milliseconds duration)
      : now(wall_clock()), deadline(since_boot() + duration), expiry(now + duration) {}

  std::chrono::microseconds now;
  std::chrono::milliseconds deadline;  ///< by the clock that decides whether it has expired
  std::chrono::microseconds expiry;    ///< by the time of day, to be shown
};

// So many tasks are written faster by one statement each than by one statement for all.
inline constexpr std::size_t few = 4;

}  // namespace leasehold::inline v0::sqlite
