#include "tasks/runtime/worker_context.hpp"

#include <spdlog/logger.h>

#include "leasehold/errors.hpp"
#include "support/log_event.hpp"

namespace leasehold::inline v0 {

void WorkerContext::lose(TaskRun& run, TaskStore& store, const char* during) const {
  if (board.lose(run)) tell_of_loss(run, why_stale(store, run.task.key.id), during);
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

StopReason WorkerContext::why_stale(TaskStore& store, TaskId id) {
  try {
    const auto stored = store.get(id);
    if (stored && stored->record.state == TaskState::cancelled) return StopReason::cancelled;
  } catch (const std::exception&) {  // then the reason remains open
  }
  return StopReason::lease_lost;
}

}  // namespace leasehold::inline v0
