#include "sqlite/database/machine_clock.hpp"
#include "sqlite/tasks/columns.hpp"
#include "sqlite/tasks/sqlite_task_store.hpp"
#include "sqlite_task_sql.hpp"

namespace leasehold::inline v0::sqlite {

using std::chrono::microseconds;
using std::chrono::milliseconds;

Recovered SqliteTaskStore::recover(const ExpiredLease& after, const RecoveryOptions& options) {
  return database_->write([&](Connection& connection) {
    const milliseconds machine = since_boot();
    Recovered recovered;
    auto& tasks = recovered.tasks;
    {
      auto row = connection.prepare(task_sql::expired, machine, after.id.value, options.batch,
                                    options.max_crashes);
      while (row.step()) {
        Columns c(row);
        tasks.push_back({.id = TaskId{c.number()},
                         .type = c.text(),
                         .state = TaskState::pending,
                         .worker = c.text(),
                         .overdue = machine - milliseconds{c.number()},
                         .crash_count = c.small_number()});
        if (c.number() != 0) tasks.back().state = TaskState::dead;
      }
    }
    const microseconds now = wall_clock();
    for (const RecoveredTask& task : tasks) {
      connection.execute(task_sql::recover, task.id.value, task.state == TaskState::dead, now);
    }
    if (!tasks.empty()) recovered.last.id = tasks.back().id;
    return recovered;
  });
}

Upkeep SqliteTaskStore::look_after(std::string_view /*process*/, const RecoveryOptions& options) {
  // Only read at first: idle workers that poll must not keep others from writing.
  const bool any_expired = database_->read([](Connection& connection) {
    auto row = connection.prepare(task_sql::any_expired, since_boot());
    return row.step() && row.integer(0) != 0;
  });
  if (!any_expired) return {};
  return {.recovered = recover({}, options).tasks};
}

}  // namespace leasehold::inline v0::sqlite
