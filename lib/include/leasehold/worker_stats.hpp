#pragma once

#include <cstdint>

#include "leasehold/histogram.hpp"

namespace leasehold::inline v0 {

/// What one worker has done since it was created. The numbers count tasks, but one task can have
/// several stale writes and renewals.
struct WorkerStats {
  std::uint64_t leased = 0;
  std::uint64_t started = 0;
  std::uint64_t completed = 0;
  std::uint64_t failed = 0;  ///< attempts, including those after which the task was dead
  std::uint64_t dead = 0;
  std::uint64_t released = 0;
  std::uint64_t lost = 0;          ///< leases lost, including those of cancelled tasks
  std::uint64_t stale_writes = 0;  ///< writes refused because the lease was gone
  std::uint64_t renewals = 0;      ///< leases renewed, not statements

  std::uint64_t running = 0;     ///< handlers that run now
  std::uint64_t prefetched = 0;  ///< tasks that are leased but not started now
  std::uint64_t settling = 0;    ///< tasks whose outcome the store has not acknowledged now

  Histogram run_time;  ///< of handlers

  /// From when a task was due until its handler began. Compares this machine's clock with the
  /// store's, so it is only as accurate as the two agree.
  Histogram time_to_start;
};

}  // namespace leasehold::inline v0
