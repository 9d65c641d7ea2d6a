#pragma once

#include <memory>
#include <string>

#include "leasehold/worker.hpp"
#include "tasks/queue_core.hpp"
#include "tasks/runtime/store_outage.hpp"
#include "tasks/runtime/task_board.hpp"
#include "tasks/runtime/worker_telemetry.hpp"

namespace leasehold::inline v0 {

/// What the threads of a worker share.
struct WorkerContext {
  QueueCore& core;
  const WorkerOptions& options;
  const std::string& name;  ///< under which tasks are leased
  TaskBoard& board;
  WorkerTelemetry& telemetry;
  StoreOutage& outage;

  /// Gives up a task whose write was refused because its lease is gone. Its handler is told, with
  /// the reason if `store` knows it.
  void lose(TaskRun& run, TaskStore& store, const char* during) const;
  /// The same for a task that the board has given up already.
  void tell_of_loss(TaskRun& run, StopReason reason, const char* during) const;

  /// Counts a write that was refused because the lease was gone.
  void count_stale_write(const TaskRun& run) const;

  /// Why the write of a lease's holder was refused, as far as `store` can tell.
  static StopReason why_stale(TaskStore& store, TaskId id);
};

}  // namespace leasehold::inline v0
