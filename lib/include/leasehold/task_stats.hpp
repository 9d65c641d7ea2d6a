#pragma once

#include <cstdint>

#include "leasehold/histogram.hpp"

namespace leasehold::inline v0 {

/// What one queue has done since it was created. The numbers count tasks, not calls, unless they
/// say otherwise.
struct TaskStats {
  std::uint64_t enqueued = 0;
  std::uint64_t already_there = 0;  ///< not added, because a task with the same unique key exists
  std::uint64_t leased = 0;
  std::uint64_t empty_leases = 0;  ///< calls of lease() that found no task
  std::uint64_t extended = 0;
  std::uint64_t completed = 0;
  std::uint64_t failed = 0;  ///< attempts, including those after which the task was dead
  std::uint64_t dead = 0;    ///< through failures or recovery
  std::uint64_t released = 0;
  std::uint64_t recovered = 0;          ///< expired leases taken back
  std::uint64_t stale_writes = 0;       ///< refused because the lease was gone
  std::uint64_t version_conflicts = 0;  ///< updates refused because the task had changed
  std::uint64_t outcomes_unknown = 0;   ///< writes whose reply was lost; most are resolved later
  /// Calls repeated because of others: in PostgreSQL after deadlocks and serialization failures, in
  /// SQLite while other processes were writing.
  std::uint64_t retries = 0;

  Histogram lease_time;  ///< of calls of lease()
};

}  // namespace leasehold::inline v0
