#pragma once

#include <cstdint>

#include "leasehold/histogram.hpp"

namespace leasehold::inline v0 {

/// What one queue did since it was made. Counts tasks, not calls, unless it says otherwise.
struct TaskStats {
  std::uint64_t enqueued = 0;
  std::uint64_t already_there = 0;  ///< enqueues that met a living unique key
  std::uint64_t leased = 0;
  std::uint64_t empty_leases = 0;  ///< calls of lease() that found nothing
  std::uint64_t extended = 0;
  std::uint64_t completed = 0;
  std::uint64_t failed = 0;  ///< attempts, those that ended in `dead` counted
  std::uint64_t dead = 0;    ///< by failing or by recovery
  std::uint64_t released = 0;
  std::uint64_t recovered = 0;          ///< expired leases taken back
  std::uint64_t stale_writes = 0;       ///< refused because the lease was gone
  std::uint64_t version_conflicts = 0;  ///< updates refused because of another version
  std::uint64_t outcomes_unknown = 0;   ///< replies lost; most are resolved by looking again
  /// Calls made again because others were in the way: in PostgreSQL deadlocks and serialization
  /// failures, in SQLite other processes that were writing.
  std::uint64_t retries = 0;

  Histogram lease_time;  ///< of calls of lease()
};

}  // namespace leasehold::inline v0
