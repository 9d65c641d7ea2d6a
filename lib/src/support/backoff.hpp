#pragma once

#include <algorithm>
#include <chrono>

#include "support/random.hpp"

namespace leasehold::inline v0 {

/// Growing, capped, jittered pauses. Each is shortened at random by up to a half, so that callers
/// that failed together do not try again together.
class Backoff {
 public:
  using milliseconds = std::chrono::milliseconds;

  Backoff(milliseconds first, milliseconds longest, double factor = 2.0)
      : first_(static_cast<double>(first.count())),
        longest_(static_cast<double>(longest.count())),
        factor_(factor),
        next_(first_) {}

  milliseconds next() {
    const double full = std::min(next_, longest_);
    next_ = std::min(next_ * factor_, longest_);
    return milliseconds{static_cast<milliseconds::rep>(full * (1.0 - random_share() / 2))};
  }

  void reset() { next_ = first_; }

 private:
  double first_;
  double longest_;
  double factor_;
  double next_;
};

}  // namespace leasehold::inline v0
