#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "leasehold/export.hpp"
#include "leasehold/lock_client.hpp"

namespace leasehold::inline v0 {

/// A lock that meets the standard's Lockable and TimedLockable requirements, so that
/// std::scoped_lock, std::unique_lock and std::lock work.
///
/// A distributed lock can be *lost* while it is held, and the standard's interface has no way to
/// tell. Check valid() or lost() in between, and pass token() on. Where loss matters, use Lock.
///
/// Like std::mutex it is not recursive. Threads that share one Mutex queue up inside the process
/// first, so that only one of them at a time asks the store.
///
/// Thread safety: as std::mutex, except that another thread may unlock it.
/// The client must outlive it.
class LEASEHOLD_API Mutex {
 public:
  /// `options.wait` and `options.on_conflict` are ignored: the calls below say how long to wait.
  /// Throws InvalidArgument.
  Mutex(LockClient& client, std::string name, LockOptions options = {});

  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  ~Mutex();

  /// Waits for as long as it takes, also while the store is unavailable. Throws what
  /// LockClient::acquire() throws.
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

  /// Never throws. Unlocks a lock that was lost, too: only valid() and lost() tell of a loss.
  void unlock() noexcept;

  /// Only the thread that has locked it may call these.
  FencingToken token() const noexcept { return held_->token(); }
  bool valid() const noexcept { return held_ && held_->valid(); }
  std::stop_token lost() const noexcept { return held_->lost(); }

 private:
  class Gate;  // lets one thread of this process through at a time

  bool acquire(std::chrono::milliseconds wait);

  LockClient& client_;
  const std::string name_;
  const LockOptions options_;
  const std::unique_ptr<Gate> gate_;
  std::optional<Lock> held_;  // belongs to the thread that passed the gate
};

}  // namespace leasehold::inline v0
