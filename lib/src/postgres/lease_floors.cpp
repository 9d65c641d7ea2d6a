#include "postgres/lease_floors.hpp"

#include <algorithm>

namespace leasehold::inline v0::postgres {
namespace {

constexpr auto cheap = std::chrono::milliseconds{50};
constexpr auto longest_pause = std::chrono::seconds{5};
constexpr int share_of_full_scans = 20;

// Nobody leases more types than this in turn. If somebody does, we begin anew.
constexpr std::size_t most_types = 10'000;

}  // namespace

LeasePlace LeaseFloors::floor_of(const std::string& type, Clock::time_point now) {
  const ThreadLock lock(mutex_);
  const auto found = entries_.find(type);
  if (found == entries_.end()) return none;
  Entry& entry = found->second;
  if (now < entry.full_scan_due) return entry.floor;
  // One thread searches from the head; the others need not do it at the same time.
  entry.full_scan_due =
      now + std::min<Clock::duration>(
                std::max<Clock::duration>(entry.full_scan_took, cheap) * share_of_full_scans,
                longest_pause);
  return none;
}

bool LeaseFloors::full_scan_is_cheap(const std::string& type) {
  const ThreadLock lock(mutex_);
  const auto found = entries_.find(type);
  return found == entries_.end() || found->second.full_scan_took < cheap;
}

void LeaseFloors::learn(const std::string& type, const Scan& scan, Clock::time_point now) {
  const ThreadLock lock(mutex_);
  const bool found_some = scan.last != none;
  if (scan.used != none) {
    const auto found = entries_.find(type);
    // Never backwards: a task found before the floor has a higher priority, which has no floor.
    if (found != entries_.end() && found_some && found->second.floor != none) {
      found->second.floor = std::max(found->second.floor, scan.last);
    }
    return;
  }
  if (!scan.satisfied && scan.took < cheap) {
    entries_.erase(type);  // all tasks were seen, and the way was short
    return;
  }
  if (entries_.size() >= most_types) entries_.clear();
  Entry& entry = entries_[type];
  entry.full_scan_took = scan.took;
  entry.full_scan_due =
      now + std::min<Clock::duration>(scan.took * share_of_full_scans, longest_pause);
  if (!found_some) return;  // the old floor still holds
  const bool all_seen = !scan.satisfied && entry.floor != none;
  entry.floor = all_seen ? std::max(entry.floor, scan.last) : scan.last;
}

void LeaseFloors::forget(const std::string& type) {
  const ThreadLock lock(mutex_);
  const auto found = entries_.find(type);
  if (found != entries_.end()) found->second.full_scan_due = {};
}

}  // namespace leasehold::inline v0::postgres
