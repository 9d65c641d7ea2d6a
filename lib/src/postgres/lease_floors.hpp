#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <string>

#include "support/thread_safety.hpp"

namespace leasehold::inline v0::postgres {

/// A place among the tasks of one type and priority, in the order in which they are leased.
struct LeasePlace {
  std::int64_t run_at_us = 0;
  std::int64_t id = 0;

  friend auto operator<=>(const LeasePlace&, const LeasePlace&) = default;
};

/// Remembers for each type and priority where the next lease begins its search (its floor): behind
/// the tasks that this process leased last.
///
/// The reason: each leased task leaves a dead entry at the head of the index. While another
/// transaction stays open, dead entries cannot be removed, and each lease that begins at the head
/// has to step over all of them.
///
/// Tasks that come back to a place before the floor (recovered, released, committed late) are found
/// by full scans from the head. Full scans take up to a twentieth of the time. In addition, one is
/// made at once if a lease found fewer tasks than it wanted, unless it is known to be slow.
///
/// Priorities without a floor are looked for in the gaps between those that have one. If that is
/// slow, because nothing but dead entries is left of a priority, it too takes up to a twentieth of
/// the time.
///
/// Thread-safe.
class LeaseFloors {
 public:
  using Clock = std::chrono::steady_clock;
  /// By rank, which is the negated priority.
  using Places = std::map<int, LeasePlace>;

  /// How to search now.
  struct Search {
    Places floors;     ///< empty for a full scan
    bool gaps = true;  ///< also for priorities without a floor
  };
  Search search_for(const std::string& type, Clock::time_point now);

  /// Whether a full scan is cheap enough to be made whenever a lease found too few tasks.
  bool full_scan_is_cheap(const std::string& type);

  struct Scan {
    bool full = false;       ///< it began at the head of each rank
    bool gaps = true;        ///< it looked for other ranks
    Places last;             ///< the last task that it leased in each rank
    bool satisfied = false;  ///< it leased as many as it was allowed to
    Clock::duration took{};
  };
  void learn(const std::string& type, const Scan& scan, Clock::time_point now);

  /// A task of this type went back to an earlier place: make a full scan next time.
  void forget(const std::string& type);

 private:
  struct Entry {
    Places floors;
    Clock::time_point full_scan_due;
    Clock::duration full_scan_took{};
    Clock::time_point gaps_due;
    Clock::duration gaps_took{};
  };

  ThreadMutex mutex_;
  std::map<std::string, Entry> entries_ LEASEHOLD_GUARDED_BY(mutex_);
};

}  // namespace leasehold::inline v0::postgres
