#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "support/thread_safety.hpp"

namespace leasehold::inline v0::postgres {

/// A place in the order in which tasks of one type are leased.
struct LeasePlace {
  int rank = std::numeric_limits<int>::max();  ///< the negated priority
  std::int64_t run_at_us = 0;
  std::int64_t id = 0;

  friend auto operator<=>(const LeasePlace&, const LeasePlace&) = default;
};

/// Remembers for each type where the next lease begins its search (its floor): behind the tasks
/// that this process leased last.
///
/// The reason: each leased task leaves a dead entry at the head of the index. While another
/// transaction stays open, dead entries cannot be removed, and each lease that begins at the head
/// has to step over all of them.
///
/// Tasks that come back to a place before the floor (recovered, released, committed late) are found
/// by full scans from the head. Full scans take up to a twentieth of the time. In addition, one is
/// made at once if a lease found fewer tasks than it wanted, unless it is known to be slow.
///
/// Thread-safe.
class LeaseFloors {
 public:
  using Clock = std::chrono::steady_clock;

  /// The floor to use now, or `none` for a full scan.
  LeasePlace floor_of(const std::string& type, Clock::time_point now);
  static constexpr LeasePlace none{};

  /// Whether a full scan is cheap enough to be made whenever a lease found too few tasks.
  bool full_scan_is_cheap(const std::string& type);

  struct Scan {
    LeasePlace used;         ///< the floor that it began at
    LeasePlace last;         ///< the last task that it leased, or `none`
    bool satisfied = false;  ///< it leased as many as it was allowed to
    Clock::duration took{};
  };
  void learn(const std::string& type, const Scan& scan, Clock::time_point now);

  /// A task of this type went back to an earlier place: make a full scan next time.
  void forget(const std::string& type);

 private:
  struct Entry {
    LeasePlace floor;
    Clock::time_point full_scan_due;
    Clock::duration full_scan_took{};
  };

  ThreadMutex mutex_;
  std::map<std::string, Entry> entries_ LEASEHOLD_GUARDED_BY(mutex_);
};

}  // namespace leasehold::inline v0::postgres
