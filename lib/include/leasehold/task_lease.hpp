#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "leasehold/export.hpp"
#include "leasehold/task_attempt.hpp"
#include "leasehold/task_record.hpp"

namespace leasehold::inline v0 {

class QueueCore;  // internal

/// The result of reporting a failed attempt.
enum class FailOutcome {
  retried,  ///< the task is pending again and due later
  dead,     ///< the task is dead: no attempt was left, or none was wanted
  stale,    ///< nothing was written: the lease is no longer ours
};

LEASEHOLD_API const char* to_string(FailOutcome outcome) noexcept;

/// How long a failed task waits before its next attempt. Each delay is shortened by a random share
/// of up to one half, so that tasks that failed together are not retried together.
struct TaskBackoff {
  /// The delay after the first failed attempt, 1 ms to 10 years. Default 1 s.
  std::chrono::milliseconds first{1'000};
  /// By how much the delay grows with each attempt, 1 to 100. Default 2.
  double factor = 2.0;
  /// The delay does not grow beyond this, at least `first`. Default 1 h.
  std::chrono::milliseconds longest{3'600'000};
};

/// Whether and when a failed task is retried. NewTask::max_attempts applies in any case.
class LEASEHOLD_API Retry {
 public:
  /// After the delay that TaskQueueOptions::backoff gives.
  static Retry by_policy() { return Retry{Kind::by_policy, {}, {}}; }
  /// After the delay that `backoff` gives.
  static Retry with(TaskBackoff backoff) { return Retry{Kind::with, {}, backoff}; }
  /// After exactly `delay`, 0 to 10 years.
  static Retry after(std::chrono::milliseconds delay) { return Retry{Kind::after, delay, {}}; }
  /// Not at all: the task is dead at once.
  static Retry never() { return Retry{Kind::never, {}, {}}; }

 private:
  friend class QueueCore;
  enum class Kind { by_policy, with, after, never };
  Retry(Kind kind, std::chrono::milliseconds delay, TaskBackoff backoff)
      : kind_(kind), delay_(delay), backoff_(backoff) {}

  Kind kind_;
  std::chrono::milliseconds delay_;
  TaskBackoff backoff_;
};

/// The right to work on a task until valid_until(), or longer if the lease is extended. Move-only.
///
/// Every write names the version that this lease created and costs one statement. If the lease was
/// taken back in the meantime, the write changes nothing and returns `stale`. If the reply to a
/// write is lost, the write is repeated, and if necessary the task is looked up to see what became
/// of it. Only if that fails too does the call throw OutcomeUnknown; the lease is then unchanged,
/// and the call may be repeated.
///
/// If another transaction has locked the task's row in PostgreSQL, a write waits for it for 1 s, or
/// for half of the command_timeout if that is less; extend() does not wait. Then it throws
/// ServerRefused (conflict). The lease is unchanged, and the call may be repeated.
///
/// complete(), fail() and release() end the lease. Ending it twice is an error of the caller
/// (InvalidArgument). If a lease is destroyed before it was ended, its task fails ("abandoned"), so
/// that an exception on the way costs one attempt and a backoff instead of the whole lease. The
/// destructor never throws, and waits no longer than the time-outs of the queue. If it cannot fail
/// the task, it logs that, and the lease expires.
///
/// Thread safety: const members may be called from any thread, the others from one thread at a
/// time.
class LEASEHOLD_API TaskLease : public TaskAttempt {
 public:
  TaskLease(TaskLease&&) noexcept;
  TaskLease& operator=(TaskLease&&) noexcept;
  ~TaskLease();

  /// The name under which the task was leased.
  const std::string& worker() const noexcept;

  /// Until then the lease is certainly ours. The time is counted on this process's steady clock
  /// from before the request was sent, minus a safety margin of 1 % + 2 ms. In the past once the
  /// lease has ended. Asks no server.
  std::chrono::steady_clock::time_point valid_until() const noexcept;

  /// Whether valid_until() is in the future.
  bool valid() const noexcept;

  /// Renews the lease from now on, for its present duration or for another one of 100 ms to 24 h.
  /// A lease that has expired can still be renewed if nobody has taken it back yet. `stale` means
  /// that the task was recovered or cancelled. Not allowed after complete_in() (InvalidArgument).
  LeaseWrite extend();
  LeaseWrite extend(std::chrono::milliseconds duration);

  /// Stores how far the work has come: JSON of at most TaskQueueOptions::largest_payload bytes.
  /// Not allowed after complete_in() (InvalidArgument): the call could wait for the caller's own
  /// transaction.
  LeaseWrite progress(std::string_view json);

  /// Completes the task. `result` is JSON, or empty for none. It is not stored if the queue deletes
  /// completed tasks at once (TaskQueueOptions::retention).
  LeaseWrite complete(std::string_view result = {});

  /// Reports that the attempt failed. `error` is stored for people to read, up to 4,096 bytes;
  /// bytes that are not UTF-8 are replaced.
  FailOutcome fail(std::string_view error, Retry retry = Retry::by_policy());

  /// Gives the task back as if it had never been leased: it keeps its place in the queue, and the
  /// attempt does not count.
  LeaseWrite release();

  /// The same, but the task is not due before `delay` has passed, 0 to 10 years.
  LeaseWrite release_for(std::chrono::milliseconds delay);

  /// Drops the lease without a write. Unless the task is ended in some other way, the lease expires
  /// and recovery counts a crash.
  void abandon() noexcept;

  struct State;  // internal

 private:
  friend class QueueCore;
  explicit TaskLease(std::unique_ptr<State> state) noexcept;
  LeaseWrite release_after(std::optional<std::chrono::milliseconds> delay);

  std::unique_ptr<State> state_;
};

}  // namespace leasehold::inline v0
