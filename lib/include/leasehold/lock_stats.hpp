#pragma once

#include <cstdint>
#include <optional>

#include "leasehold/histogram.hpp"

namespace leasehold::inline v0 {

/// The locks in the store, whoever holds them.
struct LockCensus {
  std::uint64_t total = 0;   ///< active + stale
  std::uint64_t mine = 0;    ///< active, held by this runner
  std::uint64_t active = 0;  ///< held at the moment
  std::uint64_t stale = 0;   ///< expired without a release
};

/// What one client has done since it was made.
struct LockStats {
  std::uint64_t acquired = 0;  ///< grants, without re-entries
  std::uint64_t reentered = 0;
  std::uint64_t released = 0;
  std::uint64_t contended = 0;  ///< acquires that found the lock held
  std::uint64_t retries = 0;
  std::uint64_t failures = 0;  ///< acquires that ended without a lock
  std::uint64_t heartbeats = 0;
  std::uint64_t heartbeat_failures = 0;
  std::uint64_t lost = 0;
  std::uint64_t stale_seen = 0;
  std::uint64_t takeovers = 0;
  std::uint64_t forced = 0;
  std::uint64_t handovers = 0;        ///< grants to a waiter from the line
  std::uint64_t waiters_evicted = 0;  ///< crashed or frozen waiters that this client removed
  std::uint64_t busy_retries = 0;     ///< SQLite: retries because another process was writing

  // At this moment:
  std::uint64_t held = 0;
  std::uint64_t waiting = 0;            ///< acquires that found the lock held and still run
  std::uint64_t heartbeats_active = 0;  ///< locks that are renewed automatically

  Histogram time_to_acquire;
  Histogram time_held;
  Histogram time_waited;  ///< in line, by waiters that got the lock

  /// Only with StatsScope::store.
  std::optional<LockCensus> census;
};

enum class StatsScope {
  process,  ///< what this client did; costs nothing
  store,    ///< also counts the locks in the store, which visits all of them
};

}  // namespace leasehold::inline v0
