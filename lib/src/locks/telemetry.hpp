#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "leasehold/lock_observer.hpp"
#include "leasehold/lock_stats.hpp"
#include "support/live_histogram.hpp"

namespace leasehold::inline v0 {

/// Counts what happens to the locks of one client and tells its observer. Thread-safe.
class LockTelemetry {
 public:
  explicit LockTelemetry(std::shared_ptr<LockObserver> observer) : observer_(std::move(observer)) {}

  void record(const LockEvent& event) noexcept;
  void waiting(int change) noexcept { waiting_.fetch_add(change, std::memory_order_relaxed); }

  /// All but what others know: the census, heartbeats and evictions.
  LockStats snapshot() const noexcept;

 private:
  std::uint64_t count(LockEventType type) const noexcept {
    return counts_[static_cast<std::size_t>(type)].load(std::memory_order_relaxed);
  }

  const std::shared_ptr<LockObserver> observer_;
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(LockEventType::released) + 1>
      counts_{};
  std::atomic<std::int64_t> waiting_{0};
  std::atomic<std::int64_t> held_{0};
  LiveHistogram time_to_acquire_;
  LiveHistogram time_held_;
  LiveHistogram time_waited_;
};

}  // namespace leasehold::inline v0
