#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

namespace leasehold::inline v0 {

/// A mutex that one busy thread cannot keep from the others. As a rule whoever comes first when it
/// is free gets it: handing it over each time would cost a change of threads each time. But when
/// somebody has waited for two milliseconds, and the last hand-over was as long ago, it is handed
/// to who has waited longest. Not recursive; it costs a little more than a std::mutex.
class FairMutex {
 public:
  void lock() {
    std::unique_lock guard(mutex_);
    if (!taken_) {
      taken_ = true;
      return;
    }
    Waiter self;
    waiters_.push_back(&self);
    while (!self.chosen && !(self.woken && !taken_)) {
      self.woken = false;
      self.stirred.wait(guard, [&self] { return self.woken; });
    }
    if (self.chosen) return;
    taken_ = true;
    waiters_.pop_front();  // only the first one is woken
  }

  void unlock() {
    const std::lock_guard guard(mutex_);
    if (waiters_.empty()) {
      taken_ = false;
      return;
    }
    Waiter& first = *waiters_.front();
    const auto now = Clock::now();
    first.chosen = now - std::max(first.since, handed_over_at_) > patience;
    if (first.chosen) {
      handed_over_at_ = now;
      waiters_.pop_front();
    } else {
      taken_ = false;
    }
    if (first.woken && !first.chosen) return;  // it is on its way
    first.woken = true;
    first.stirred.notify_one();  // with the mutex held: it may be gone afterwards
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds patience{2'000};

  struct Waiter {
    const Clock::time_point since = Clock::now();
    std::condition_variable stirred;
    bool woken = false;
    bool chosen = false;  ///< it has been handed over, and is not free in between
  };

  std::mutex mutex_;  // for a moment only
  // Protected by mutex_:
  bool taken_ = false;
  std::deque<Waiter*> waiters_;
  Clock::time_point handed_over_at_{};
};

}  // namespace leasehold::inline v0
