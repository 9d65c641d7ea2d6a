#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "leasehold/export.hpp"
#include "leasehold/histogram.hpp"
#include "leasehold/lock.hpp"

namespace leasehold::inline v0 {

/// What can happen to a lock, in the order of its life.
enum class LockEventType {
  claiming,          ///< an acquire began
  contended,         ///< somebody else holds it; at most once for an acquire
  stale_seen,        ///< the holder's lease had ended without a release
  retried,           ///< one more attempt
  queued,            ///< stands in line
  acquired,          ///< granted; `elapsed` is the time since claiming
  handover,          ///< the grant came from the line; `elapsed` is the time waited
  reentered,         ///< an earlier grant of this runner is shared
  takeover,          ///< granted after a holder that had not released it
  forced,            ///< granted, or released, over a living holder by an operator's override
  failed,            ///< acquire() returned nothing or threw; `elapsed` as above
  heartbeat,         ///< renewed
  heartbeat_failed,  ///< one renewal did not succeed; tried again until trust ends
  lost,              ///< `elapsed` is the time held, `reason` why it ended
  releasing,         ///< the caller gives it back
  released,          ///< `elapsed` is the time held
};

struct LockEvent {
  LockEventType type;
  std::string_view name;
  FencingToken token{};                  ///< once granted
  std::chrono::microseconds elapsed{0};  ///< see the type
  LossReason reason = LossReason::none;  ///< for `lost`
};

/// Told of everything that happens to the locks of a client. Called on the thread where it happens,
/// among them the renewal thread: be quick, do not throw, do not call the client back.
class LEASEHOLD_API LockObserver {
 public:
  virtual ~LockObserver() = default;
  virtual void on_lock_event(const LockEvent& event) noexcept = 0;
};

/// The locks that are in the store, whoever holds them.
struct LockCensus {
  std::uint64_t total = 0;   ///< active + stale
  std::uint64_t mine = 0;    ///< active, held by this runner
  std::uint64_t active = 0;  ///< with a living lease
  std::uint64_t stale = 0;   ///< whose holder vanished
};

/// What one client did since it was made.
struct LockStats {
  std::uint64_t acquired = 0;  ///< grants, re-entries not counted
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
  std::uint64_t handovers = 0;        ///< grants that came from the line
  std::uint64_t waiters_evicted = 0;  ///< dead or frozen ones, found by this client
  std::uint64_t busy_retries = 0;     ///< SQLite: another process was in the way, tried again

  std::uint64_t held = 0;               ///< now
  std::uint64_t waiting = 0;            ///< acquires under way that found the lock held, now
  std::uint64_t heartbeats_active = 0;  ///< locks that are being renewed, now

  Histogram time_to_acquire;
  Histogram time_held;
  Histogram time_waited;  ///< in line, of those who got the lock

  /// Counted in the store if asked for (StatsScope::store), else empty.
  std::optional<LockCensus> census;
};

enum class StatsScope {
  process,  ///< costs nothing
  store,    ///< also counts the locks in the store: walks over all of them
};

}  // namespace leasehold::inline v0
