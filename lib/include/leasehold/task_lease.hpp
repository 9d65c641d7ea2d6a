#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "leasehold/export.hpp"
#include "leasehold/task.hpp"

namespace leasehold::inline v0 {

class QueueCore;  // internal: what a queue and its leases share

/// What became of a write that only the holder of a lease may make.
enum class LeaseWrite {
  accepted,  ///< the lease was ours, and it is written
  stale,     ///< it is not ours any more: expired and recovered, cancelled, or ended. Not written
};

/// What became of a failed attempt.
enum class FailOutcome {
  retried,  ///< pending again, for later
  dead,     ///< no attempt was left, or none was wanted
  stale,    ///< the lease is not ours any more; nothing was written
};

LEASEHOLD_API const char* to_string(LeaseWrite write) noexcept;
LEASEHOLD_API const char* to_string(FailOutcome outcome) noexcept;

/// When a failed task is tried again: after `first`, then `factor` times as long with each attempt
/// up to `longest`, each shortened by a random share of up to a half so that what failed together
/// does not come back together.
struct TaskBackoff {
  std::chrono::milliseconds first{1'000};
  double factor = 2.0;
  std::chrono::milliseconds longest{3'600'000};
};

/// Whether and when a failed task is tried again; max_attempts holds in any case.
class LEASEHOLD_API Retry {
 public:
  /// By the queue's TaskQueueOptions::backoff.
  static Retry by_policy() { return Retry{Kind::by_policy, {}, {}}; }
  static Retry with(TaskBackoff backoff) { return Retry{Kind::with, {}, backoff}; }
  static Retry after(std::chrono::milliseconds delay) { return Retry{Kind::after, delay, {}}; }
  /// Dead at once.
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

/// A task that this process may work on, until valid_until() or longer if it is extended.
/// Move-only.
///
/// Every write names the version that this lease made, in one statement: if the lease has been
/// taken back meanwhile, nothing is changed and the answer is `stale`. A write whose reply was lost
/// is looked up and made again where that is safe; only if that fails too does it throw
/// OutcomeUnknown.
///
/// complete(), fail() and release() end the lease; a second ending is an error of the caller
/// (InvalidArgument). An unfinished lease that is destroyed fails its task ("abandoned"), so that
/// an exception on the way costs an attempt and a backoff, not the whole lease time. The destructor
/// never throws and waits at most for the queue's time-outs; what it could not do is logged, and
/// the lease then expires by itself.
///
/// Thread safety: const members from any thread; the others from one thread at a time.
class LEASEHOLD_API TaskLease {
 public:
  TaskLease(TaskLease&&) noexcept;
  TaskLease& operator=(TaskLease&&) noexcept;
  ~TaskLease();

  TaskId id() const noexcept;
  TaskVersion version() const noexcept;
  const std::string& type() const noexcept;
  const std::string& payload() const noexcept;  ///< JSON
  int priority() const noexcept;

  /// 1 for the first.
  int attempt() const noexcept;
  int max_attempts() const noexcept;
  /// How many earlier leases of this task expired.
  int crash_count() const noexcept;
  /// What an earlier attempt reported last, or this one. JSON; empty if nothing was.
  const std::string& last_progress() const noexcept;
  const std::string& worker() const noexcept;

  /// Until when the lease is ours for certain: counted on the steady clock from before the request
  /// was sent, minus a margin. Asks no server.
  std::chrono::steady_clock::time_point valid_until() const noexcept;
  bool valid() const noexcept;

  /// Renews the lease for its duration, or for another one, from now. `stale` is how a worker
  /// learns that its task was recovered or cancelled. A lease that has expired but was not yet
  /// taken back can be renewed. Not after complete_in() (InvalidArgument), as progress().
  LeaseWrite extend();
  LeaseWrite extend(std::chrono::milliseconds duration);

  /// Stores how far the work has come: JSON, at most TaskQueueOptions::largest_payload bytes.
  /// Not after complete_in() (InvalidArgument): it could wait for the caller's own transaction.
  LeaseWrite progress(std::string_view json);

  /// Done. `result`: JSON, or empty for none; lost if completed tasks are deleted at once.
  LeaseWrite complete(std::string_view result = {});

  /// Not done. `error` is kept for people to read: its first 4,096 bytes, bytes that are not UTF-8
  /// replaced.
  FailOutcome fail(std::string_view error, Retry retry = Retry::by_policy());

  /// Gives the task back as if it had never been leased: at its place, the attempt not counted.
  LeaseWrite release();
  /// The same, but not to be tried again for this long.
  LeaseWrite release_for(std::chrono::milliseconds delay);

  /// Lets go without telling anybody: the lease expires, and recovery counts a crash. For handles
  /// whose task is ended in another way.
  void abandon() noexcept;

  struct State;  // internal

 private:
  friend class QueueCore;
  explicit TaskLease(std::unique_ptr<State> state) noexcept;

  std::unique_ptr<State> state_;
};

}  // namespace leasehold::inline v0
