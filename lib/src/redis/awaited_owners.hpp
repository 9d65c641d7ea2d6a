#pragma once

#include <atomic>
#include <set>
#include <string>
#include <string_view>

#include "support/thread_safety.hpp"

namespace leasehold::inline v0::redis {

/// Owners whose locks others are known to wait for, or whose locks only hand_over.lua can give
/// back. A hint: the release of an owner that is missing here costs one round trip more.
/// Thread-safe.
class AwaitedOwners {
 public:
  void add(std::string_view owner) {
    const ThreadLock lock(mutex_);
    if (owners_.size() >= most) owners_.clear();  // most of them are of locks that expired
    owners_.emplace(owner);
    empty_.store(false, std::memory_order_relaxed);
  }

  /// Removes it. Returns whether it was there.
  bool take(std::string_view owner) {
    if (empty_.load(std::memory_order_relaxed)) return false;
    const ThreadLock lock(mutex_);
    const auto found = owners_.find(owner);
    if (found == owners_.end()) return false;
    owners_.erase(found);
    empty_.store(owners_.empty(), std::memory_order_relaxed);
    return true;
  }

 private:
  static constexpr std::size_t most = 10'000;

  std::atomic<bool> empty_{true};
  ThreadMutex mutex_;
  std::set<std::string, std::less<>> owners_ LEASEHOLD_GUARDED_BY(mutex_);
};

}  // namespace leasehold::inline v0::redis
