#include "tasks/runtime/worker_context.hpp"

#include <spdlog/logger.h>

#include "leasehold/errors.hpp"
#include "support/log_event.hpp"

namespace leasehold::inline v0 {

void WorkerContext::lose(TaskRun& run, LossReasons& why, const char* during) const {
  // First the look-up: if it takes longer than the handler may trust its lease, the board loses the
  // task, and the handler is told then.
  const StopReason reason = why.look_up(run.task.key.id);
  if (board.lose(run)) tell_of_loss(run, reason, during);
}

void WorkerContext::tell_of_loss(TaskRun& run, StopReason reason, const char* during) const {
  run.tell(reason);
  telemetry.record(TaskEventType::lost, run);
  log_info(*core.logger, "task lost",
           {{"id", run.task.key.id.value},
            {"version", run.task.key.version.value},
            {"worker", name},
            {"during", during},
            {"reason", to_string(reason)}});
}

void WorkerContext::count_stale_write(const TaskRun& run) const {
  core.telemetry.stale_writes.add();
  telemetry.record(TaskEventType::stale_write, run);
}

StopReason LossReasons::look_up(TaskId id) {
  if (failed_) return StopReason::lease_lost;
  try {
    const auto stored = store_->get(id);
    if (stored && stored->record.state == TaskState::cancelled) return StopReason::cancelled;
  } catch (const std::exception&) {  // then the reason remains open
    failed_ = true;
  }
  return StopReason::lease_lost;
}

}  // namespace leasehold::inline v0
