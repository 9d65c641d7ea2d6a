#pragma once

#include <memory>
#include <stop_token>
#include <string_view>

#include "leasehold/export.hpp"
#include "leasehold/task_attempt.hpp"

namespace leasehold::inline v0 {

class WorkerRun;  // internal
struct TaskRun;   // internal

/// Why a handler was asked to stop.
enum class StopReason {
  none,        ///< it was not
  lease_lost,  ///< the lease is gone: recovered, or the store was unreachable for too long
  cancelled,   ///< somebody cancelled the task
  deadline,    ///< the handler ran longer than HandlerOptions::deadline
  shutdown,    ///< the worker stops, and its grace period is over
};

LEASEHOLD_API const char* to_string(StopReason reason) noexcept;

/// A task as the handler of a Worker sees it.
///
/// The worker renews the lease on a thread of its own while the handler runs, so a handler that
/// blocks keeps its lease. Once stop_token() has fired, for whatever reason, the task no longer
/// belongs to this handler: nothing that it does, returns or throws afterwards changes the task.
///
/// Thread safety: const members may be called from any thread while the handler runs, the others
/// from one thread at a time.
class LEASEHOLD_API Task : public TaskAttempt {
 public:
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// Stores how far the work has come: JSON of at most TaskQueueOptions::largest_payload bytes.
  /// The next attempt finds it in last_progress(). Costs one statement.
  ///
  /// If the store is unreachable, or refuses to work for the time being, the result is `deferred`.
  /// The worker keeps the progress and writes it when the store is back, unless newer progress or
  /// the completion of the task replaces it. Only the first call in an outage waits for a time-out.
  /// Other refusals are thrown as by TaskQueue. If the result is `stale`, stop_token() has fired or
  /// will fire shortly. Not allowed after complete_in() (InvalidArgument).
  LeaseWrite progress(std::string_view json);

  /// Sets the result that is stored with the task when the handler returns: JSON of at most
  /// TaskQueueOptions::largest_payload bytes.
  void set_result(std::string_view json);

  /// Fires when the lease is lost, the task is cancelled, the handler's deadline has passed, or the
  /// worker stops and its grace period is over. A loss or cancellation is noticed by the next
  /// renewal, that is within a third of the lease. Callbacks on this token run on the worker's own
  /// threads and must return quickly.
  std::stop_token stop_token() const noexcept;

  /// Why stop_token() fired.
  StopReason stop_reason() const noexcept;

  /// True once the worker was asked to stop. A long handler can then store its progress and throw
  /// RetryLater within the grace period.
  bool shutting_down() const noexcept;

 private:
  friend class WorkerRun;
  Task(WorkerRun& worker, std::shared_ptr<TaskRun> run) noexcept;

  WorkerRun& worker_;
  const std::shared_ptr<TaskRun> run_;
};

}  // namespace leasehold::inline v0
