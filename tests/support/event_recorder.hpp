#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/locks.hpp"
#include "support/thread_safety.hpp"
#include "tests/support/signal.hpp"

namespace leasehold::testing {

/// Writes down what happens to the locks of a client, and lets a test wait for it.
class EventRecorder final : public LockObserver {
 public:
  struct Entry {
    LockEventType type;
    std::string name;
    FencingToken token;
    std::chrono::microseconds elapsed;
    LossReason reason;
  };

  void on_lock_event(const LockEvent& event) noexcept override {
    {
      const ThreadLock guard(mutex_);
      entries_.push_back(
          {event.type, std::string(event.name), event.token, event.elapsed, event.reason});
    }
    changed_.notify_all();
  }

  /// Whether `type` has happened at least `times` times, to `name` if given.
  [[nodiscard]] bool wait_for(LockEventType type, std::size_t times = 1,
                              std::string_view name = {}) const {
    ThreadLock guard(mutex_);
    const auto happened = [&]()
                              LEASEHOLD_REQUIRES(mutex_) { return count_now(type, name) >= times; };
    return changed_.wait_for(guard, patience, happened);
  }

  std::size_t count(LockEventType type, std::string_view name = {}) const {
    const ThreadLock guard(mutex_);
    return count_now(type, name);
  }

  std::vector<Entry> entries() const {
    const ThreadLock guard(mutex_);
    return entries_;
  }

  /// What happened, in order.
  std::vector<LockEventType> types() const {
    std::vector<LockEventType> types;
    for (const Entry& entry : entries()) types.push_back(entry.type);
    return types;
  }

 private:
  std::size_t count_now(LockEventType type, std::string_view name) const
      LEASEHOLD_REQUIRES(mutex_) {
    return static_cast<std::size_t>(
        std::count_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
          return entry.type == type && (name.empty() || entry.name == name);
        }));
  }

  mutable ThreadMutex mutex_;
  mutable ThreadCondition changed_;
  std::vector<Entry> entries_ LEASEHOLD_GUARDED_BY(mutex_);
};

}  // namespace leasehold::testing
