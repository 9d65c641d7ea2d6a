#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "leasehold/export.hpp"
#include "leasehold/lock_client.hpp"
#include "leasehold/shared_lock.hpp"

namespace leasehold::inline v0 {

/// A read/write lock that meets the standard's Lockable, TimedLockable, SharedLockable and
/// SharedTimedLockable requirements, so that std::shared_lock, std::unique_lock and
/// std::scoped_lock work. Like Mutex, it cannot tell of a loss: where that matters, use SharedLock.
///
/// Like std::shared_mutex it is not recursive. Threads that share one SharedMutex first take turns
/// inside the process, and then ask the store. A waiting writer keeps new readers out, and waiting
/// readers come in before the next writer, so that neither side starves.
///
/// Thread safety: as std::shared_mutex, except that another thread may unlock it.
class LEASEHOLD_API SharedMutex {
 public:
  /// `options.wait` and `options.on_conflict` are ignored: the calls below say how long to wait.
  /// Throws InvalidArgument.
  SharedMutex(LockClient& client, std::string name, LockOptions options = {});

  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;
  ~SharedMutex();

  void lock() { acquire(LockOptions::forever); }
  bool try_lock() { return acquire(std::chrono::milliseconds{0}); }
  void unlock() noexcept;

  void lock_shared() { acquire_shared(LockOptions::forever); }
  bool try_lock_shared() { return acquire_shared(std::chrono::milliseconds{0}); }
  void unlock_shared() noexcept;

  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& wait) {
    return acquire(std::chrono::ceil<std::chrono::milliseconds>(wait));
  }
  template <class Clock, class Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    return try_lock_for(deadline - Clock::now());
  }
  template <class Rep, class Period>
  bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& wait) {
    return acquire_shared(std::chrono::ceil<std::chrono::milliseconds>(wait));
  }
  template <class Clock, class Duration>
  bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    return try_lock_shared_for(deadline - Clock::now());
  }

 private:
  class Gate;  // lets readers or one writer of this process through, and keeps their locks

  bool acquire(std::chrono::milliseconds wait);
  bool acquire_shared(std::chrono::milliseconds wait);

  SharedLock lock_;
  const LockOptions options_;
  const std::unique_ptr<Gate> gate_;
};

}  // namespace leasehold::inline v0
