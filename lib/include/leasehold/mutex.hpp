#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "leasehold/export.hpp"
#include "leasehold/lock_client.hpp"

namespace leasehold::inline v0 {

/// A lock as the standard library wants it: Lockable and TimedLockable, so that std::scoped_lock,
/// std::unique_lock and std::lock work.
///
/// The standard's interface has no words for what a distributed lock can do: *lose* itself. Ask
/// valid() or lost() in between, pass token() on; where that matters, Lock is the better tool.
///
/// Like std::mutex it is not recursive. Threads that share one Mutex queue up in the process first:
/// only one of them at a time asks Redis.
/// Thread safety: as std::mutex; unlike it, it may be unlocked by another thread.
/// The client must outlive it.
class LEASEHOLD_API Mutex {
 public:
  /// `options.wait` and `options.on_conflict` are not used: the calls below say how long to wait.
  /// Throws InvalidArgument.
  Mutex(LockClient& client, std::string name, LockOptions options = {});

  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  /// Waits for as long as it takes. Throws what LockClient::acquire() throws; a Redis that is away
  /// is waited for.
  void lock();

  /// Tries once.
  bool try_lock();

  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& wait) {
    return acquire(std::chrono::ceil<std::chrono::milliseconds>(wait));
  }

  template <class Clock, class Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    return try_lock_for(deadline - Clock::now());
  }

  /// Never throws. A lock that was lost is unlocked too: only valid() could have told.
  void unlock() noexcept;

  /// The following are for whoever has it locked.
  FencingToken token() const noexcept { return held_->token(); }
  bool valid() const noexcept { return held_ && held_->valid(); }
  std::stop_token lost() const noexcept { return held_->lost(); }

 private:
  bool acquire(std::chrono::milliseconds wait);

  LockClient& client_;
  const std::string name_;
  const LockOptions options_;

  std::mutex mutex_;
  std::condition_variable unlocked_;
  bool taken_ = false;        // by a thread of this process; protected by mutex_
  std::optional<Lock> held_;  // belongs to the thread that set taken_
};

}  // namespace leasehold::inline v0
