#include "leasehold/recovery.hpp"

#include <iterator>
#include <utility>

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
  recover_in_batches([&](const RecoveryReport& batch) {
    report.tasks.insert(report.tasks.end(), batch.tasks.begin(), batch.tasks.end());
    report.requeued += batch.requeued;
    report.dead += batch.dead;
    report.batches += batch.batches;
  });
  return report;
}

void Recovery::recover_in_batches(
    const std::function<void(const RecoveryReport& batch)>& on_batch) {
  ExpiredLease after;
  for (;;) {
    Recovered recovered = core_->store->recover(after, options_);
    RecoveryReport batch{.tasks = std::move(recovered.tasks), .batches = 1};
    if (batch.tasks.empty()) return;
    for (const RecoveredTask& task : batch.tasks) {
      ++(task.state == TaskState::dead ? batch.dead : batch.requeued);
    }
    core_->note_recovered(batch.tasks);
    on_batch(batch);
    // Onwards from the last one, so that leases which could not be taken back do not block the
    // rest.
    after = recovered.last;
  }
}

}  // namespace leasehold::inline v0
