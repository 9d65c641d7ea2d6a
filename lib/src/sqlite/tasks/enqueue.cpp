#include "sqlite/database/callers_connection.hpp"
#include "sqlite/database/machine_clock.hpp"
#include "sqlite/tasks/columns.hpp"
#include "sqlite/tasks/sqlite_task_listener.hpp"
#include "sqlite/tasks/sqlite_task_store.hpp"
#include "sqlite_task_sql.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using std::chrono::microseconds;

std::vector<Enqueued> add(Connection& connection, std::span<const NewTask> tasks) {
  const microseconds now = wall_clock();
  std::vector<Enqueued> answers;
  answers.reserve(tasks.size());
  for (const NewTask& task : tasks) {
    const auto run_at =
        (task.run_at ? microseconds{us_since_1970(*task.run_at)} : now) + task.delay;
    const bool added =
        task.unique_key.empty()
            ? changed(connection, task_sql::enqueue, now, task.type, task.payload, task.priority,
                      run_at, task.max_attempts)
            : changed(connection, task_sql::enqueue_unique, now, task.type, task.payload,
                      task.priority, run_at, task.max_attempts, task.unique_key);
    if (added) {
      answers.push_back({TaskId{connection.last_id()}, Enqueued::Outcome::added});
    } else {
      auto living = connection.prepare(task_sql::living, task.unique_key);
      living.step();
      answers.push_back({TaskId{living.integer(0)}, Enqueued::Outcome::exists});
    }
  }
  return answers;
}

}  // namespace

std::vector<Enqueued> SqliteTaskStore::enqueue(std::span<const NewTask> tasks) {
  auto answers = database_->write([&](Connection& connection) { return add(connection, tasks); });
  notify_workers();
  return answers;
}

std::vector<Enqueued> SqliteTaskStore::enqueue_in(const CallersTransaction& transaction,
                                                  std::span<const NewTask> tasks) {
  return in_callers_transaction(std::get<sqlite3*>(transaction), where(),
                                [&](Connection& callers) { return add(callers, tasks); });
}

void SqliteTaskStore::notify_workers() const {
  if (options_.notify == Notify::on) database_->hub().tell(tasks_topic, {});
}

}  // namespace leasehold::inline v0::sqlite
