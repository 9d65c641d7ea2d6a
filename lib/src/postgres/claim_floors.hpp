#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace leasehold::inline v0::postgres {

/// A place in the order in which tasks of one type are leased.
struct ClaimPlace {
  int rank = std::numeric_limits<int>::max();  ///< the negated priority
  std::int64_t run_at_us = 0;
  std::int64_t id = 0;

  friend auto operator<=>(const ClaimPlace&, const ClaimPlace&) = default;
};

/// Where the next lease of each type should begin to look: behind what this process leased last.
///
/// Why: a leased task leaves a dead entry at the head of the index. While somebody keeps a
/// transaction open, dead entries can not be removed, and each lease that begins at the head walks
/// over all of them.
///
/// Tasks that come back to a place before the floor (recovered, released, committed late) are found
/// by scans from the head ("full"). Those are made so often that they take up to a twentieth of the
/// time, and at once if a lease found less than it wanted, unless they are known to be slow.
///
/// Thread-safe.
class ClaimFloors {
 public:
  using Clock = std::chrono::steady_clock;

  /// The floor to use now, or `none` for a full scan.
  ClaimPlace floor_of(const std::string& type, Clock::time_point now);
  static constexpr ClaimPlace none{};

  /// Whether a full scan is cheap, so that it can be made whenever a floor left too little.
  bool full_scan_is_cheap(const std::string& type);

  struct Scan {
    ClaimPlace used;         ///< the floor it was given
    ClaimPlace last;         ///< the last task it leased, or `none`
    bool satisfied = false;  ///< it leased as many as it was allowed to
    Clock::duration took{};
  };
  void learn(const std::string& type, const Scan& scan, Clock::time_point now);

  /// Something of this type went back to an earlier place: look from the head next time.
  void forget(const std::string& type);

 private:
  struct Entry {
    ClaimPlace floor;
    Clock::time_point full_scan_due;
    Clock::duration full_scan_took{};
  };

  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // protected by mutex_
};

}  // namespace leasehold::inline v0::postgres
