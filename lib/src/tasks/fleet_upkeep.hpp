#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>

#include "support/boot_clock.hpp"
#include "support/random.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0 {

/// Decides when this process calls TaskStore::look_after(): about once a second if it is alone, and
/// less often the more processes share the queue, so that the whole fleet costs the store about ten
/// calls a second. Thread-safe.
class FleetUpkeep {
 public:
  using Clock = BootClock;

  /// Whether it is time. The thread that gets `true` makes the call.
  bool is_due(Clock::time_point now) {
    const ThreadLock lock(mutex_);
    if (now < next_) return false;
    const auto longest = std::clamp(alone * static_cast<int>(fleet()) / 10, alone, crowded);
    next_ = now + std::chrono::duration_cast<Clock::duration>(longest * (1.0 - random_share() / 2));
    return true;
  }

  void learn(std::size_t fleet) noexcept { fleet_.store(std::max<std::size_t>(fleet, 1)); }
  std::size_t fleet() const noexcept { return fleet_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::chrono::milliseconds alone{1'000};
  static constexpr std::chrono::milliseconds crowded{30'000};

  std::atomic<std::size_t> fleet_{1};
  ThreadMutex mutex_;
  Clock::time_point next_ LEASEHOLD_GUARDED_BY(mutex_){};
};

}  // namespace leasehold::inline v0
