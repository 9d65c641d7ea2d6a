#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

// Which mutex protects what, checked by clang at compile time (-Wthread-safety); g++ ignores it.
#if defined(__clang__)
#define LEASEHOLD_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define LEASEHOLD_THREAD_ATTRIBUTE(attribute)
#endif

/// On a member: may be touched only while `mutex` is held.
#define LEASEHOLD_GUARDED_BY(mutex) LEASEHOLD_THREAD_ATTRIBUTE(guarded_by(mutex))
/// On a function, or a lambda after its parameters: the caller holds the mutex.
#define LEASEHOLD_REQUIRES(...) LEASEHOLD_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
/// On a function: the caller must not hold the mutex.
#define LEASEHOLD_EXCLUDES(...) LEASEHOLD_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define LEASEHOLD_ACQUIRE(...) LEASEHOLD_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define LEASEHOLD_TRY_ACQUIRE(...) LEASEHOLD_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define LEASEHOLD_RELEASE(...) LEASEHOLD_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define LEASEHOLD_CAPABILITY(name) LEASEHOLD_THREAD_ATTRIBUTE(capability(name))
#define LEASEHOLD_SCOPED_CAPABILITY LEASEHOLD_THREAD_ATTRIBUTE(scoped_lockable)
/// On a function whose locking clang cannot follow. Say why beside it.
#define LEASEHOLD_UNCHECKED LEASEHOLD_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace leasehold::inline v0 {

/// A std::mutex between the threads of this process, with annotations. (The public class Mutex is a
/// lock between processes.)
class LEASEHOLD_CAPABILITY("mutex") ThreadMutex {
 public:
  void lock() LEASEHOLD_ACQUIRE() { mutex_.lock(); }
  void unlock() LEASEHOLD_RELEASE() { mutex_.unlock(); }
  bool try_lock() LEASEHOLD_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class ThreadLock;
  std::mutex mutex_;
};

/// Holds a ThreadMutex until the end of its scope. May be unlocked and locked again in between.
class LEASEHOLD_SCOPED_CAPABILITY ThreadLock {
 public:
  explicit ThreadLock(ThreadMutex& mutex) LEASEHOLD_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~ThreadLock() LEASEHOLD_RELEASE() = default;

  ThreadLock(const ThreadLock&) = delete;
  ThreadLock& operator=(const ThreadLock&) = delete;

  void lock() LEASEHOLD_ACQUIRE() { lock_.lock(); }
  void unlock() LEASEHOLD_RELEASE() { lock_.unlock(); }

 private:
  template <class Variable>
  friend class BasicCondition;
  std::unique_lock<std::mutex> lock_;
};

/// A condition variable for a ThreadMutex. Predicates that read guarded members say so:
/// `[this]() LEASEHOLD_REQUIRES(mutex_) { return ready_; }`.
///
/// The members that call a predicate are unchecked: they hold the lock that it asks for, but clang
/// cannot tell that the caller's mutex is the one inside of `lock`.
template <class Variable>
class BasicCondition {
 public:
  void notify_one() noexcept { changed_.notify_one(); }
  void notify_all() noexcept { changed_.notify_all(); }

  template <class Predicate>
  void wait(ThreadLock& lock, Predicate predicate) LEASEHOLD_UNCHECKED {
    changed_.wait(lock.lock_, std::move(predicate));
  }
  template <class Time, class Predicate>
  bool wait_for(ThreadLock& lock, Time time, Predicate predicate) LEASEHOLD_UNCHECKED {
    return changed_.wait_for(lock.lock_, time, std::move(predicate));
  }
  template <class TimePoint, class Predicate>
  bool wait_until(ThreadLock& lock, TimePoint when, Predicate predicate) LEASEHOLD_UNCHECKED {
    return changed_.wait_until(lock.lock_, when, std::move(predicate));
  }

 protected:
  static std::unique_lock<std::mutex>& inner(ThreadLock& lock) { return lock.lock_; }
  Variable& variable() { return changed_; }

 private:
  Variable changed_;
};

using ThreadCondition = BasicCondition<std::condition_variable>;

/// A condition whose waits can also be ended by a stop token. It costs more than a ThreadCondition.
class StoppableCondition : public BasicCondition<std::condition_variable_any> {
 public:
  using BasicCondition::wait;
  using BasicCondition::wait_for;
  using BasicCondition::wait_until;

  template <class Predicate>
  bool wait(ThreadLock& lock, std::stop_token stop, Predicate predicate) LEASEHOLD_UNCHECKED {
    return variable().wait(inner(lock), std::move(stop), std::move(predicate));
  }
  template <class Time, class Predicate>
  bool wait_for(ThreadLock& lock, std::stop_token stop, Time time,
                Predicate predicate) LEASEHOLD_UNCHECKED {
    return variable().wait_for(inner(lock), std::move(stop), time, std::move(predicate));
  }
  template <class TimePoint, class Predicate>
  bool wait_until(ThreadLock& lock, std::stop_token stop, TimePoint when,
                  Predicate predicate) LEASEHOLD_UNCHECKED {
    return variable().wait_until(inner(lock), std::move(stop), when, std::move(predicate));
  }
};

}  // namespace leasehold::inline v0
