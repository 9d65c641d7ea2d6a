#pragma once

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace leasehold::inline v0 {

/// Owners of locks that others wait for, as far as we heard of it, or that are held in a way that
/// only leave.lua gives back. A hint: whoever is missing costs a round trip more. Thread-safe.
class AwaitedOwners {
 public:
  void add(std::string_view owner) {
    const std::lock_guard guard(mutex_);
    if (owners_.size() >= most) owners_.clear();  // most are of locks that ended by themselves
    owners_.emplace(owner);
    empty_.store(false, std::memory_order_relaxed);
  }

  /// Removes it; whether it was there.
  bool take(std::string_view owner) {
    if (empty_.load(std::memory_order_relaxed)) return false;
    const std::lock_guard guard(mutex_);
    const auto found = owners_.find(owner);
    if (found == owners_.end()) return false;
    owners_.erase(found);
    empty_.store(owners_.empty(), std::memory_order_relaxed);
    return true;
  }

 private:
  static constexpr std::size_t most = 10'000;

  std::atomic<bool> empty_{true};
  std::mutex mutex_;
  std::set<std::string, std::less<>> owners_;  // protected by mutex_
};

}  // namespace leasehold::inline v0
