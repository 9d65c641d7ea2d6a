#include <sqlite3.h>

#include "leasehold/errors.hpp"
#include "leasehold/sqlite.hpp"
#include "sqlite/database/callers_connection.hpp"
#include "sqlite/database/machine_clock.hpp"
#include "sqlite/database/sqlite_uri.hpp"
#include "sqlite/tasks/sqlite_task_store.hpp"
#include "sqlite_task_sql.hpp"
#include "tasks/queue_core.hpp"
#include "tasks/runtime/worker_run.hpp"
#include "tasks/validation.hpp"

namespace leasehold::inline v0 {
namespace {

using sqlite::SqliteTaskStore;

SqliteTaskStore& sqlite_store(const QueueCore& core) {
  if (auto* store = dynamic_cast<SqliteTaskStore*>(core.store.get())) return *store;
  throw InvalidArgument("the queue is in " + core.store->where() +
                        ", and this is a transaction in SQLite: use the functions of "
                        "leasehold/postgres.hpp");
}

}  // namespace

void transact(TaskQueue& queue, const std::function<void(sqlite3*)>& work) {
  SqliteTaskStore& store = sqlite_store(*QueueCore::of(queue));
  if (!work) throw InvalidArgument("transact() with an empty function");
  store.transact(work);
}

Enqueued enqueue_in(sqlite3* transaction, TaskQueue& queue, const NewTask& task) {
  return enqueue_in(transaction, queue, {&task, 1}).front();
}

std::vector<Enqueued> enqueue_in(sqlite3* transaction, TaskQueue& queue,
                                 std::span<const NewTask> tasks) {
  if (tasks.empty()) return {};
  QueueCore& core = *QueueCore::of(queue);
  SqliteTaskStore& store = sqlite_store(core);
  return core.enqueue(tasks, [&](std::span<const NewTask> distinct) {
    return store.enqueue_in(transaction, distinct);
  });
}

void complete_in(sqlite3* transaction, TaskLease& lease, std::string_view result) {
  TaskLease::State& state = QueueCore::state(lease);
  SqliteTaskStore& store = sqlite_store(*state.core);
  store.check_callers(transaction);
  state.core->complete_joined(state, result, [&](const FinishedTask& task, Keep keep) {
    return store.complete_in(transaction, task, keep);
  });
}

void complete_in(sqlite3* transaction, Task& task, std::string_view result) {
  WorkerRun& worker = WorkerRun::of(task);
  SqliteTaskStore& store = sqlite_store(worker.core());
  store.check_callers(transaction);
  worker.complete_joined(WorkerRun::run_of(task), result,
                         [&](const FinishedTask& finished, Keep keep) {
                           return store.complete_in(transaction, finished, keep);
                         });
}

void fence(sqlite3* transaction, std::string_view resource, FencingToken token) {
  check_resource(resource);
  const std::int64_t number = checked_token(token);
  sqlite::check_in_transaction(transaction);
  const std::string where = sqlite::path_of(transaction);
  if (!sqlite::has_table(transaction, "task_fences")) {
    throw ServerRefused(ServerRefused::Reason::no_schema,
                        where + ": the tables are not there: run migrate");
  }
  sqlite::in_callers_transaction(transaction, where, [&](sqlite::Connection& connection) {
    connection.execute(sqlite::task_sql::fence, resource, number, sqlite::wall_clock());
    auto seen = connection.prepare(sqlite::task_sql::fence_seen, resource);
    seen.step();
    if (seen.integer(0) > number) {
      throw StaleToken("stale fencing token " + std::to_string(number) + " for " +
                       std::string(resource) + ": " + std::to_string(seen.integer(0)) +
                       " was seen");
    }
  });
}

std::optional<std::string> sqlite_file(std::string_view uri) {
  auto parsed = sqlite::parse_sqlite_uri(uri);
  if (!parsed || parsed->kind != sqlite::SqliteUri::Kind::file) return std::nullopt;
  return std::move(parsed->name);
}

}  // namespace leasehold::inline v0
