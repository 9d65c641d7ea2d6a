#pragma once

#include <memory>
#include <string>

#include "leasehold/worker.hpp"
#include "tasks/queue_core.hpp"
#include "tasks/runtime/store_outage.hpp"
#include "tasks/runtime/task_board.hpp"
#include "tasks/runtime/worker_telemetry.hpp"

namespace leasehold::inline v0 {

/// Why writes of leases' holders were refused, as far as the store can tell. After a look-up that
/// failed it makes no more: each could wait for its own time-out.
class LossReasons {
 public:
  explicit LossReasons(TaskStore& store) : store_(&store) {}

  StopReason look_up(TaskId id);

 private:
  TaskStore* store_;
  bool failed_ = false;
};

/// What the threads of a worker share.
struct WorkerContext {
  QueueCore& core;
  const WorkerOptions& options;
  const std::string& name;  ///< under which tasks are leased
  TaskBoard& board;
  WorkerTelemetry& telemetry;
  StoreOutage& outage;

  /// Gives up a task whose write was refused because its lease is gone. Its handler is told, with
  /// the reason if the store knows it.
  void lose(TaskRun& run, LossReasons& why, const char* during) const;
  /// The same for a task that the board has given up already.
  void tell_of_loss(TaskRun& run, StopReason reason, const char* during) const;

  /// Counts a write that was refused because the lease was gone.
  void count_stale_write(const TaskRun& run) const;
};

}  // namespace leasehold::inline v0
