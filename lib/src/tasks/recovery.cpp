#include "leasehold/recovery.hpp"

#include <spdlog/logger.h>

#include "leasehold/task_queue.hpp"
#include "tasks/queue_core.hpp"
#include "tasks/validation.hpp"

namespace leasehold::inline v0 {

Recovery::Recovery(TaskQueue& queue, RecoveryOptions options)
    : core_(queue.core_), options_(options) {
  check_recovery_options(options_);
}

RecoveryReport Recovery::run_once() {
  RecoveryReport report;
  TaskId after{0};
  std::size_t batch = 0;
  do {
    auto recovered = core_->store->recover(after, options_);
    batch = recovered.size();
    ++report.batches;
    for (RecoveredTask& task : recovered) {
      const bool dead = task.state == TaskState::dead;
      ++(dead ? report.dead : report.requeued);
      if (dead) core_->telemetry.dead.add();
      core_->logger->info(
          "task recovered id={} type={} worker={} overdue_ms={} crashes={} state={}", task.id.value,
          task.type, task.worker, task.overdue.count(), task.crash_count, to_string(task.state));
      after = task.id;
      report.tasks.push_back(std::move(task));
    }
    core_->telemetry.recovered.add(batch);
    // Onwards from the last one, so that what could not be taken back does not block the rest.
  } while (batch == options_.batch);
  return report;
}

}  // namespace leasehold::inline v0
