#pragma once

#include <algorithm>
#include <atomic>

#include "leasehold/histogram.hpp"

namespace leasehold::inline v0 {

/// A histogram that many threads may add to at the same time.
class LiveHistogram {
 public:
  void add(std::chrono::microseconds value) noexcept {
    const auto bucket = static_cast<std::size_t>(
        std::lower_bound(Histogram::bounds.begin(), Histogram::bounds.end(), value) -
        Histogram::bounds.begin());
    buckets_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value.count(), std::memory_order_relaxed);
  }

  Histogram snapshot() const noexcept {
    Histogram result;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      result.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
      result.count += result.buckets[i];
    }
    result.sum = std::chrono::microseconds{sum_.load(std::memory_order_relaxed)};
    return result;
  }

 private:
  std::array<std::atomic<std::uint64_t>, Histogram::bounds.size() + 1> buckets_{};
  std::atomic<std::int64_t> sum_{0};
};

}  // namespace leasehold::inline v0
