#include "leasehold/task_queue.hpp"

#include <algorithm>
#include <map>

#include "postgres/postgres_task_store.hpp"
#include "sqlite/tasks/sqlite_task_store.hpp"
#include "tasks/distinct_tasks.hpp"
#include "tasks/queue_core.hpp"
#include "tasks/validation.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;

std::shared_ptr<QueueCore> make_core(std::string_view uri, TaskQueueOptions options) {
  check_queue_options(options);
  auto store = sqlite::open_task_store(uri, options);
  if (!store) store = postgres::open_task_store(uri, options);
  return std::make_shared<QueueCore>(std::move(store), std::move(options));
}

/// Throws InvalidArgument if a lease occurs twice.
void check_none_twice(std::vector<HeldLease*> leases) {
  std::sort(leases.begin(), leases.end());
  const auto twice = std::adjacent_find(leases.begin(), leases.end());
  if (twice == leases.end()) return;
  throw InvalidArgument("complete of task " + std::to_string((*twice)->task.key.id.value) +
                        ": its lease is given twice");
}

}  // namespace

TaskQueue::TaskQueue(std::string_view uri, TaskQueueOptions options)
    : core_(make_core(uri, std::move(options))) {}

TaskQueue::TaskQueue(TaskQueue&&) noexcept = default;
TaskQueue& TaskQueue::operator=(TaskQueue&&) noexcept = default;
TaskQueue::~TaskQueue() = default;

Enqueued TaskQueue::enqueue(const NewTask& task) {
  return enqueue(std::span<const NewTask>(&task, 1)).front();
}

std::vector<Enqueued> TaskQueue::enqueue(std::span<const NewTask> tasks) {
  if (tasks.empty()) return {};
  check_new_tasks(tasks, core_->options.largest_payload);
  const DistinctTasks distinct(tasks);
  auto answers = distinct.answers(core_->store->enqueue(distinct.tasks()));
  core_->telemetry.count_enqueued(answers);
  return answers;
}

void TaskQueue::check(const NewTask& task, const TaskQueueOptions& options) {
  check_new_tasks({&task, 1}, options.largest_payload);
}

std::vector<TaskLease> TaskQueue::lease(const LeaseRequest& request) {
  return core_->lease(request);
}

std::vector<TaskId> TaskQueue::extend(std::span<TaskLease> leases) {
  // One statement for each duration. As a rule all leases of a call have the same one.
  std::map<milliseconds, std::vector<HeldLease*>> by_duration;
  std::vector<TaskId> stale;
  for (TaskLease& lease : leases) {
    TaskLease::State& state = QueueCore::state(lease);
    if (state.stage == LeaseStage::ended) {
      stale.push_back(lease.id());
    } else if (state.stage == LeaseStage::held) {
      by_duration[state.duration].push_back(&state);
    }
  }
  for (const auto& [duration, group] : by_duration) {
    const auto renewal = core_->writes.extend(group, duration);
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (renewal.each[i] == WriteResult::accepted) {
        group[i]->valid_until = renewal.valid_until;
      } else if (renewal.each[i] == WriteResult::stale) {
        static_cast<TaskLease::State*>(group[i])->lose("extend");
        stale.push_back(group[i]->task.key.id);
      }
    }
  }
  return stale;
}

std::vector<TaskId> TaskQueue::complete(std::span<TaskLease> leases) {
  std::vector<Completion> completions;
  completions.reserve(leases.size());
  for (TaskLease& lease : leases) completions.push_back({&lease, {}});
  return complete(completions);
}

std::vector<TaskId> TaskQueue::complete(std::span<const Completion> completions) {
  if (completions.empty()) return {};
  std::vector<HeldLease*> leases;
  std::vector<FinishedLease> finished;
  for (const Completion& completion : completions) {
    TaskLease::State& state = QueueCore::state(*completion.lease);
    check_not_ended(state, "complete");
    core_->check_result(completion.result);
    leases.push_back(&state);
    finished.push_back({&state, completion.result});
  }
  check_none_twice(leases);
  const auto results = core_->writes.complete(finished, core_->keep());
  if (results.error) std::rethrow_exception(results.error);
  std::vector<TaskId> stale;
  for (std::size_t i = 0; i < completions.size(); ++i) {
    TaskLease& lease = *completions[i].lease;
    if (QueueCore::state(lease).end(results.each[i], "complete") == LeaseWrite::stale) {
      stale.push_back(lease.id());
    }
  }
  return stale;
}

std::vector<TaskId> TaskQueue::release(std::span<TaskLease> leases) {
  if (leases.empty()) return {};
  std::vector<HeldLease*> held;
  held.reserve(leases.size());
  for (TaskLease& lease : leases) {
    check_not_ended(QueueCore::state(lease), "release");
    held.push_back(&QueueCore::state(lease));
  }
  const auto results = core_->writes.release(held, std::nullopt, GivenBack::in_order);
  if (results.error) std::rethrow_exception(results.error);
  std::vector<TaskId> stale;
  for (std::size_t i = 0; i < leases.size(); ++i) {
    if (QueueCore::state(leases[i]).end(results.each[i], "release") == LeaseWrite::stale) {
      stale.push_back(leases[i].id());
    }
  }
  return stale;
}

std::optional<TaskRecord> TaskQueue::get(TaskId id) {
  auto stored = core_->store->get(id);
  if (!stored) return std::nullopt;
  return std::move(stored->record);
}

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
  const auto remove = [&](TaskState state, std::optional<milliseconds> age) {
    if (!age) return;
    for (Removed chunk{.more = true}; chunk.more;) {
      if (removal.limit && removed >= *removal.limit) return;
      chunk = core_->store->remove_finished(state, *age, removal.chunk);
      removed += chunk.tasks;
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
