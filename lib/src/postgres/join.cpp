#include "leasehold/errors.hpp"
#include "leasehold/postgres.hpp"
#include "postgres/postgres_errors.hpp"
#include "postgres/postgres_task_store.hpp"
#include "postgres/postgres_uri.hpp"
#include "postgres/pqxx_bridge.hpp"
#include "sql_queries.hpp"
#include "tasks/queue_core.hpp"
#include "tasks/runtime/worker_run.hpp"
#include "tasks/validation.hpp"

namespace leasehold::inline v0 {
namespace {

using postgres::PostgresTaskStore;

PostgresTaskStore& postgres_store(const QueueCore& core) {
  if (auto* store = dynamic_cast<PostgresTaskStore*>(core.store.get())) return *store;
  throw InvalidArgument(
      "the queue is in " + core.store->where() +
      ", and this is a transaction in PostgreSQL: use the functions of leasehold/sqlite.hpp");
}

/// Runs a part of the caller's transaction, in the errors that we throw.
template <typename Work>
auto in_transaction_of_caller(pqxx::transaction_base& transaction, Work&& work) {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (!transaction.conn().is_open() ||
        dynamic_cast<const pqxx::broken_connection*>(&error) != nullptr) {
      const auto words = std::string("the transaction's connection was lost: ") + error.what();
      // One that commits each statement by itself may have done so.
      if (dynamic_cast<pqxx::nontransaction*>(&transaction)) throw OutcomeUnknown(words);
      // Else that is for the caller to do, later: nothing can have been committed.
      throw Unavailable(words);
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
  PostgresTaskStore& store = postgres_store(*state.core);
  state.core->complete_joined(state, result, [&](const FinishedTask& task, Keep keep) {
    return in_transaction_of_caller(transaction,
                                    [&] { return store.complete_in(transaction, task, keep); });
  });
}

void complete_in(pqxx::transaction_base& transaction, Task& task, std::string_view result) {
  WorkerRun& worker = WorkerRun::of(task);
  PostgresTaskStore& store = postgres_store(worker.core());
  worker.complete_joined(
      WorkerRun::run_of(task), result, [&](const FinishedTask& finished, Keep keep) {
        return in_transaction_of_caller(
            transaction, [&] { return store.complete_in(transaction, finished, keep); });
      });
}

void fence(pqxx::transaction_base& transaction, std::string_view resource, FencingToken token,
           std::string_view schema) {
  check_resource(resource);
  postgres::check_schema(schema);
  postgres::Params params;
  params.add(resource).add(checked_token(token));
  in_transaction_of_caller(transaction, [&] {
    return postgres::execute(transaction, postgres::Statement(sql::fence, std::string(schema)).text,
                             params);
  });
}

}  // namespace leasehold::inline v0
