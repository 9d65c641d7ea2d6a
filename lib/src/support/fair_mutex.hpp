#pragma once

#include <algorithm>
#include <chrono>
#include <deque>

#include "support/thread_safety.hpp"

namespace leasehold::inline v0 {

/// A mutex that one busy thread cannot keep from the others.
///
/// Usually the first thread that comes while it is free gets it, because handing it over would cost
/// a thread switch each time. But once a thread has waited for two milliseconds, and the last
/// handover was as long ago, it is handed to the thread that has waited longest. Not recursive. It
/// costs a little more than a std::mutex.
class LEASEHOLD_CAPABILITY("mutex") FairMutex {
 public:
  // Unchecked: the inner mutex_ is held for a moment only, while `taken_` stands for this mutex.
  void lock() LEASEHOLD_ACQUIRE() LEASEHOLD_UNCHECKED {
    ThreadLock lock(mutex_);
    if (!taken_) {
      taken_ = true;
      return;
    }
    Waiter self;
    waiters_.push_back(&self);
    while (!self.chosen && !(self.woken && !taken_)) {
      self.woken = false;
      self.stirred.wait(lock, [&self] { return self.woken; });
    }
    if (self.chosen) return;
    taken_ = true;
    waiters_.pop_front();  // only the first one is woken
  }

  void unlock() LEASEHOLD_RELEASE() LEASEHOLD_UNCHECKED {
    const ThreadLock lock(mutex_);
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
    if (first.woken && !first.chosen) return;  // it is awake already
    first.woken = true;
    first.stirred.notify_one();  // with mutex_ held: without it the waiter may be gone
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds patience{2'000};

  struct Waiter {
    const Clock::time_point since = Clock::now();
    ThreadCondition stirred;
    bool woken = false;
    bool chosen = false;  ///< the mutex was handed to it, and was not free in between
  };

  ThreadMutex mutex_;
  bool taken_ LEASEHOLD_GUARDED_BY(mutex_) = false;
  std::deque<Waiter*> waiters_ LEASEHOLD_GUARDED_BY(mutex_);
  Clock::time_point handed_over_at_ LEASEHOLD_GUARDED_BY(mutex_){};
};

/// Holds a FairMutex until the end of its scope.
class LEASEHOLD_SCOPED_CAPABILITY FairLock {
 public:
  explicit FairLock(FairMutex& mutex) LEASEHOLD_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~FairLock() LEASEHOLD_RELEASE() { mutex_.unlock(); }
  FairLock(const FairLock&) = delete;
  FairLock& operator=(const FairLock&) = delete;

 private:
  FairMutex& mutex_;
};

}  // namespace leasehold::inline v0
