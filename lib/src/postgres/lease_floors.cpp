#include "postgres/lease_floors.hpp"

#include <algorithm>

namespace leasehold::inline v0::postgres {
namespace {

constexpr LeaseFloors::Clock::duration cheap = std::chrono::milliseconds{50};
// A lease that takes no longer looks for other priorities each time.
constexpr LeaseFloors::Clock::duration quick = std::chrono::milliseconds{10};
constexpr auto longest_pause = std::chrono::seconds{5};
constexpr int share_of_full_scans = 20;

// Nobody leases more types in turn, or uses more priorities. If somebody does, we begin anew.
constexpr std::size_t most_types = 10'000;
constexpr std::size_t most_ranks = 100;

/// So that searches which take so long take a twentieth of the time.
LeaseFloors::Clock::duration pause_after(LeaseFloors::Clock::duration took) {
  return std::min<LeaseFloors::Clock::duration>(took * share_of_full_scans, longest_pause);
}

}  // namespace

LeaseFloors::Search LeaseFloors::search_for(const std::string& type, Clock::time_point now) {
  const ThreadLock lock(mutex_);
  const auto found = entries_.find(type);
  if (found == entries_.end()) return {};
  Entry& entry = found->second;
  const bool full = now >= entry.full_scan_due;
  const bool gaps = full || entry.floors.empty() || now >= entry.gaps_due;
  // One thread makes a search that takes long; the others need not do it at the same time.
  if (full) entry.full_scan_due = now + pause_after(std::max(entry.full_scan_took, cheap));
  if (gaps && entry.gaps_took >= quick) entry.gaps_due = now + pause_after(entry.gaps_took);
  return {full ? Places{} : entry.floors, gaps};
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
    found->second.full_scan_due = now + pause_after(scan.took);
  }
  if (found == entries_.end()) return;
  if (scan.gaps) {
    found->second.gaps_took = scan.took;
    found->second.gaps_due = scan.took < quick ? now : now + pause_after(scan.took);
  }
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
