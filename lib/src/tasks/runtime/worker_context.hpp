#pragma once

#include <memory>
#include <string>

#include "leasehold/worker.hpp"
#include "tasks/queue_core.hpp"
#include "tasks/runtime/board.hpp"
#include "tasks/runtime/outage.hpp"
#include "tasks/runtime/worker_telemetry.hpp"

namespace leasehold::inline v0 {

/// What the threads of a worker share.
struct WorkerContext {
  QueueCore& core;
  const WorkerOptions& options;
  const std::string& name;  ///< who leases
  Board& board;
  WorkerTelemetry& telemetry;
  Outage& outage;

  /// A write was refused because the lease of a task is gone: its handler is told, with the reason
  /// if `store` knows it, and nothing that it does counts any more.
  void lose(TaskRun& run, TaskStore& store, const char* during) const;
  /// The same for one that the board has given up already.
  void tell_of_loss(TaskRun& run, StopReason reason, const char* during) const;

  /// A write was refused because the lease was gone.
  void count_stale_write(const TaskRun& run) const;

  /// Why a write of the holder of a lease was refused, as far as `store` can tell.
  static StopReason why_stale(TaskStore& store, TaskId id);
};

}  // namespace leasehold::inline v0
