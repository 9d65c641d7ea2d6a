#include <limits>

#include "leasehold/errors.hpp"
#include "leasehold/postgres.hpp"
#include "postgres/postgres_errors.hpp"
#include "postgres/postgres_task_store.hpp"
#include "postgres/postgres_uri.hpp"
#include "postgres/pqxx_bridge.hpp"
#include "sql_queries.hpp"
#include "tasks/queue_core.hpp"
#include "tasks/validation.hpp"
#include "tasks/worker/worker_run.hpp"

namespace leasehold {
namespace {

using postgres::PostgresTaskStore;

PostgresTaskStore& postgres_store(const QueueCore& core) {
  if (auto* store = dynamic_cast<PostgresTaskStore*>(core.store.get())) return *store;
  throw InvalidArgument("the queue is in " + core.store->where() +
                        ": a PostgreSQL transaction can not be joined");
}

/// Runs a part of the caller's transaction, in the errors that we throw.
template <typename Work>
auto in_transaction_of_caller(pqxx::transaction_base& transaction, Work&& work) {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    // Nothing can have been committed: that is for the caller to do, later.
    if (!transaction.conn().is_open() ||
        dynamic_cast<const pqxx::broken_connection*>(&error) != nullptr) {
      throw Unavailable(std::string("the transaction's connection was lost: ") + error.what());
    }
    const auto refused = postgres::explain(postgres::sqlstate_of(error), error.what(),
                                           "in the caller's transaction");
    if (refused.sqlstate() == postgres::sqlstate::stale_fencing_token) {
      throw StaleToken(error.what());
    }
    throw refused;
  }
}

}  // namespace

Enqueued enqueue_in(pqxx::transaction_base& transaction, TaskQueue& queue, const NewTask& task) {
  return enqueue_in(transaction, queue, {&task, 1}).front();
}

std::vector<Enqueued> enqueue_in(pqxx::transaction_base& transaction, TaskQueue& queue,
                                 std::span<const NewTask> tasks) {
  if (tasks.empty()) return {};
  QueueCore& core = *QueueCore::of(queue);
  PostgresTaskStore& store = postgres_store(core);
  return core.enqueue(tasks, [&](std::span<const NewTask> distinct) {
    return in_transaction_of_caller(transaction,
                                    [&] { return store.enqueue_in(transaction, distinct); });
  });
}

void complete_in(pqxx::transaction_base& transaction, TaskLease& lease, std::string_view result) {
  TaskLease::State& state = QueueCore::state(lease);
  QueueCore::check_not_ended(state, "complete_in");
  QueueCore& core = *state.core;
  core.check_result(result);
  PostgresTaskStore& store = postgres_store(core);
  // From here on the handle must not touch the task by itself: in its destructor it would wait for
  // the lock of this very transaction.
  state.stage = TaskLease::State::Stage::handed_over;
  const LeaseWrite write = in_transaction_of_caller(transaction, [&] {
    return store.complete_in(transaction, {state.task.key, result}, core.keep());
  });
  if (write == LeaseWrite::accepted) return;
  core.telemetry.stale_writes.add();
  throw LeaseLost("task " + std::to_string(state.task.key.id.value) + " is not leased by " +
                  state.worker + " any more (version " +
                  std::to_string(state.task.key.version.value) + ")");
}

void complete_in(pqxx::transaction_base& transaction, Task& task, std::string_view result) {
  WorkerRun& worker = WorkerRun::of(task);
  const TaskRunPtr& run = WorkerRun::run_of(task);
  worker.check_result(result);
  PostgresTaskStore& store = postgres_store(worker.core());
  worker.hand_over(run);
  const LeaseWrite write = in_transaction_of_caller(transaction, [&] {
    return store.complete_in(transaction, {run->task.key, result}, run->kind.keep);
  });
  if (write == LeaseWrite::stale) worker.refuse(run);
}

void fence(pqxx::transaction_base& transaction, std::string_view resource, FencingToken token,
           std::string_view schema) {
  check_resource(resource);
  postgres::check_schema(schema);
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (token.value > most) {
    throw InvalidArgument("fencing token " + std::to_string(token.value) + ": allowed are 0 to " +
                          std::to_string(most));
  }
  postgres::Params params;
  params.add(resource).add(static_cast<std::int64_t>(token.value));
  in_transaction_of_caller(transaction, [&] {
    return postgres::execute(transaction, postgres::Statement(sql::fence, std::string(schema)).text,
                             params);
  });
}

}  // namespace leasehold
