// Work in transactions of the caller: the functions of leasehold/postgres.hpp and
// leasehold/sqlite.hpp. The store of the queue decides whether a transaction fits.
#include "leasehold/errors.hpp"
#include "leasehold/postgres.hpp"
#include "leasehold/sqlite.hpp"
#include "postgres/fence.hpp"
#include "sqlite/tasks/fence.hpp"
#include "tasks/distinct_tasks.hpp"
#include "tasks/queue_core.hpp"
#include "tasks/runtime/worker_run.hpp"
#include "tasks/validation.hpp"

namespace leasehold::inline v0 {
namespace {

std::vector<Enqueued> join_enqueue(const CallersTransaction& transaction, TaskQueue& queue,
                                   std::span<const NewTask> tasks) {
  if (tasks.empty()) return {};
  QueueCore& core = *QueueCore::of(queue);
  core.store->check_callers(transaction);
  check_new_tasks(tasks, core.options.largest_payload);
  const DistinctTasks distinct(tasks);
  auto answers = distinct.answers(core.store->enqueue_in(transaction, distinct.tasks()));
  core.telemetry.count_enqueued(answers);
  return answers;
}

void join_complete(const CallersTransaction& transaction, TaskLease& lease,
                   std::string_view result) {
  TaskLease::State& state = QueueCore::state(lease);
  QueueCore& core = *state.core;
  core.store->check_callers(transaction);
  check_not_ended(state, "complete_in");
  core.check_result(result);
  // From here on the handle must not touch the task by itself: its destructor would wait for this
  // very transaction, which locks the row.
  state.stage = LeaseStage::handed_over;
  if (core.store->complete_in(transaction, {state.task.key, result}, core.keep()) ==
      LeaseWrite::accepted) {
    return;
  }
  core.telemetry.stale_writes.add();
  throw lease_lost(state.task.key, state.worker);
}

void join_complete(const CallersTransaction& transaction, Task& task, std::string_view result) {
  WorkerRun::of(task).complete_in(transaction, WorkerRun::run_of(task), result);
}

}  // namespace

Enqueued enqueue_in(pqxx::transaction_base& transaction, TaskQueue& queue, const NewTask& task) {
  return join_enqueue(&transaction, queue, {&task, 1}).front();
}

std::vector<Enqueued> enqueue_in(pqxx::transaction_base& transaction, TaskQueue& queue,
                                 std::span<const NewTask> tasks) {
  return join_enqueue(&transaction, queue, tasks);
}

void complete_in(pqxx::transaction_base& transaction, TaskLease& lease, std::string_view result) {
  join_complete(&transaction, lease, result);
}

void complete_in(pqxx::transaction_base& transaction, Task& task, std::string_view result) {
  join_complete(&transaction, task, result);
}

void fence(pqxx::transaction_base& transaction, std::string_view resource, FencingToken token,
           std::string_view schema) {
  check_resource(resource);
  postgres::fence(transaction, resource, checked_token(token), schema);
}

void transact(TaskQueue& queue, const std::function<void(sqlite3*)>& work) {
  if (!work) throw InvalidArgument("transact() with an empty function");
  QueueCore::of(queue)->store->transact(work);
}

Enqueued enqueue_in(sqlite3* transaction, TaskQueue& queue, const NewTask& task) {
  return join_enqueue(transaction, queue, {&task, 1}).front();
}

std::vector<Enqueued> enqueue_in(sqlite3* transaction, TaskQueue& queue,
                                 std::span<const NewTask> tasks) {
  return join_enqueue(transaction, queue, tasks);
}

void complete_in(sqlite3* transaction, TaskLease& lease, std::string_view result) {
  join_complete(transaction, lease, result);
}

void complete_in(sqlite3* transaction, Task& task, std::string_view result) {
  join_complete(transaction, task, result);
}

void fence(sqlite3* transaction, std::string_view resource, FencingToken token) {
  check_resource(resource);
  sqlite::fence(transaction, resource, checked_token(token));
}

}  // namespace leasehold::inline v0
