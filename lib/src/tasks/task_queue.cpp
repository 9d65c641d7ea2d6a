#include "leasehold/task_queue.hpp"

#include "postgres/postgres_task_store.hpp"
#include "sqlite/tasks/sqlite_task_store.hpp"
#include "tasks/queue_core.hpp"
#include "tasks/validation.hpp"

namespace leasehold::inline v0 {
namespace {

std::shared_ptr<QueueCore> make_core(std::string_view uri, TaskQueueOptions options) {
  check_queue_options(options);
  auto store = open_sqlite_task_store(uri, options);
  if (!store) store = open_postgres_task_store(uri, options);
  return std::make_shared<QueueCore>(std::move(store), std::move(options));
}

}  // namespace

TaskQueue::TaskQueue(std::string_view uri, TaskQueueOptions options)
    : core_(make_core(uri, std::move(options))) {}

TaskQueue::TaskQueue(TaskQueue&&) noexcept = default;
TaskQueue& TaskQueue::operator=(TaskQueue&&) noexcept = default;
TaskQueue::~TaskQueue() = default;

Enqueued TaskQueue::enqueue(const NewTask& task) { return core_->enqueue({&task, 1}).front(); }

std::vector<Enqueued> TaskQueue::enqueue(std::span<const NewTask> tasks) {
  if (tasks.empty()) return {};
  return core_->enqueue(tasks);
}

void TaskQueue::check(const NewTask& task, const TaskQueueOptions& options) {
  check_new_tasks({&task, 1}, options.largest_payload);
}

std::vector<TaskLease> TaskQueue::lease(const LeaseRequest& request) {
  return core_->lease(request);
}

std::vector<TaskId> TaskQueue::extend(std::span<TaskLease> leases) { return core_->extend(leases); }

std::vector<TaskId> TaskQueue::complete(std::span<TaskLease> leases) {
  std::vector<Completion> completions;
  completions.reserve(leases.size());
  for (TaskLease& lease : leases) completions.push_back({&lease, {}});
  return complete(completions);
}

std::vector<TaskId> TaskQueue::complete(std::span<const Completion> completions) {
  if (completions.empty()) return {};
  return core_->complete(completions);
}

std::vector<TaskId> TaskQueue::release(std::span<TaskLease> leases) {
  if (leases.empty()) return {};
  std::vector<TaskLease::State*> states;
  states.reserve(leases.size());
  for (TaskLease& lease : leases) states.push_back(&QueueCore::state(lease));
  return core_->release(states, std::nullopt);
}

std::optional<TaskRecord> TaskQueue::get(TaskId id) { return core_->store->get(id); }

Update TaskQueue::update(TaskId id, TaskVersion expected, const TaskChanges& changes) {
  check_changes(changes, core_->options.largest_payload);
  const Update update = core_->store->update(id, expected, changes);
  if (update.outcome == Update::Outcome::conflict) core_->telemetry.version_conflicts.add();
  return update;
}

CancelOutcome TaskQueue::cancel(TaskId id) { return core_->store->cancel(id); }

RetryOutcome TaskQueue::retry(TaskId id) { return core_->store->retry(id); }

std::vector<TaskRecord> TaskQueue::list(const TaskFilter& filter) {
  check_filter(filter);
  return core_->store->list(filter);
}

std::vector<TaskCount> TaskQueue::counts(std::uint64_t at_most) {
  return core_->store->counts(at_most);
}

QueueHealth TaskQueue::health() { return core_->store->health(); }

std::uint64_t TaskQueue::remove_finished() {
  return remove_finished(
      {.completed = core_->options.retention.time(), .cancelled = std::chrono::hours{24}});
}

std::uint64_t TaskQueue::remove_finished(const Removal& removal) {
  check_removal(removal);
  std::uint64_t removed = 0;
  const auto remove = [&](TaskState state, std::optional<std::chrono::milliseconds> age) {
    if (!age) return;
    for (std::uint64_t chunk = removal.chunk; chunk == removal.chunk;) {
      if (removal.limit && removed >= *removal.limit) return;
      chunk = core_->store->remove_finished(state, *age, removal.chunk);
      removed += chunk;
    }
  };
  remove(TaskState::completed, removal.completed);
  remove(TaskState::cancelled, removal.cancelled);
  remove(TaskState::dead, removal.dead);
  return removed;
}

TaskStats TaskQueue::stats() const { return core_->telemetry.snapshot(core_->store->retries()); }

const RunnerId& TaskQueue::runner() const noexcept { return core_->runner; }

std::string TaskQueue::where() const { return core_->store->where(); }

}  // namespace leasehold::inline v0
