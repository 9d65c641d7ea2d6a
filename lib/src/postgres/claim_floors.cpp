#include "postgres/claim_floors.hpp"

#include <algorithm>

namespace leasehold::inline v0::postgres {
namespace {

constexpr auto cheap = std::chrono::milliseconds{50};
constexpr auto longest_pause = std::chrono::seconds{5};
constexpr int share_of_full_scans = 20;

// Nobody leases more types than this in turn; if somebody does, we begin anew.
constexpr std::size_t most_types = 10'000;

}  // namespace

ClaimPlace ClaimFloors::floor_of(const std::string& type, Clock::time_point now) {
  const std::lock_guard guard(mutex_);
  const auto found = entries_.find(type);
  if (found == entries_.end()) return none;
  Entry& entry = found->second;
  if (now < entry.full_scan_due) return entry.floor;
  // One thread looks from the head; the others need not do the same at the same time.
  entry.full_scan_due =
      now + std::min<Clock::duration>(
                std::max<Clock::duration>(entry.full_scan_took, cheap) * share_of_full_scans,
                longest_pause);
  return none;
}

bool ClaimFloors::full_scan_is_cheap(const std::string& type) {
  const std::lock_guard guard(mutex_);
  const auto found = entries_.find(type);
  return found == entries_.end() || found->second.full_scan_took < cheap;
}

void ClaimFloors::learn(const std::string& type, const Scan& scan, Clock::time_point now) {
  const std::lock_guard guard(mutex_);
  const bool found_some = scan.last != none;
  if (scan.used != none) {
    const auto found = entries_.find(type);
    // Not back: what was found before the floor has a higher priority, which has no floor.
    if (found != entries_.end() && found_some && found->second.floor != none) {
      found->second.floor = std::max(found->second.floor, scan.last);
    }
    return;
  }
  if (!scan.satisfied && scan.took < cheap) {
    entries_.erase(type);  // nothing is left behind it, and the way there is short
    return;
  }
  if (entries_.size() >= most_types) entries_.clear();
  Entry& entry = entries_[type];
  entry.full_scan_took = scan.took;
  entry.full_scan_due =
      now + std::min<Clock::duration>(scan.took * share_of_full_scans, longest_pause);
  if (!found_some) return;  // the old floor is as good as before
  const bool all_seen = !scan.satisfied && entry.floor != none;
  entry.floor = all_seen ? std::max(entry.floor, scan.last) : scan.last;
}

void ClaimFloors::forget(const std::string& type) {
  const std::lock_guard guard(mutex_);
  const auto found = entries_.find(type);
  if (found != entries_.end()) found->second.full_scan_due = {};
}

}  // namespace leasehold::inline v0::postgres
