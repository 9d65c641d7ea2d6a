#include "postgres/lease_floors.hpp"

#include <algorithm>

namespace leasehold::inline v0::postgres {
namespace {

constexpr auto cheap = std::chrono::milliseconds{50};
constexpr auto longest_pause = std::chrono::seconds{5};
constexpr int share_of_full_scans = 20;

// Nobody leases more types in turn, or uses more priorities. If somebody does, we begin anew.
constexpr std::size_t most_types = 10'000;
constexpr std::size_t most_ranks = 100;

}  // namespace

LeaseFloors::Places LeaseFloors::floors_of(const std::string& type, Clock::time_point now) {
  const ThreadLock lock(mutex_);
  const auto found = entries_.find(type);
  if (found == entries_.end()) return {};
  Entry& entry = found->second;
  if (now < entry.full_scan_due) return entry.floors;
  // One thread searches from the head; the others need not do it at the same time.
  entry.full_scan_due =
      now + std::min<Clock::duration>(
                std::max<Clock::duration>(entry.full_scan_took, cheap) * share_of_full_scans,
                longest_pause);
  return {};
}

bool LeaseFloors::full_scan_is_cheap(const std::string& type) {
  const ThreadLock lock(mutex_);
  const auto found = entries_.find(type);
  return found == entries_.end() || found->second.full_scan_took < cheap;
}

void LeaseFloors::learn(const std::string& type, const Scan& scan, Clock::time_point now) {
  const ThreadLock lock(mutex_);
  auto found = entries_.find(type);
  if (scan.full) {
    if (!scan.satisfied && scan.took < cheap) {
      if (found != entries_.end()) entries_.erase(found);  // all was seen, and the way was short
      return;
    }
    if (found == entries_.end()) {
      if (entries_.size() >= most_types) entries_.clear();
      found = entries_.emplace(type, Entry{}).first;
    }
    found->second.full_scan_took = scan.took;
    found->second.full_scan_due =
        now + std::min<Clock::duration>(scan.took * share_of_full_scans, longest_pause);
  }
  if (found == entries_.end()) return;
  Places& floors = found->second.floors;
  if (floors.size() >= most_ranks) floors.clear();
  for (const auto& [rank, last] : scan.last) {
    const auto [floor, is_new] = floors.emplace(rank, last);
    // A full scan that stopped within this rank may have left tasks before the old floor. Every
    // other scan has seen all tasks up to the old floor.
    const bool stopped_here = scan.satisfied && rank == scan.last.rbegin()->first;
    if (!is_new) floor->second = scan.full && stopped_here ? last : std::max(floor->second, last);
  }
}

void LeaseFloors::forget(const std::string& type) {
  const ThreadLock lock(mutex_);
  const auto found = entries_.find(type);
  if (found != entries_.end()) found->second.full_scan_due = {};
}

}  // namespace leasehold::inline v0::postgres
