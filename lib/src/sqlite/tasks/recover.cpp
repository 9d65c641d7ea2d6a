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
    if (tasks.empty()) return recovered;
    const microseconds now = wall_clock();
    std::int64_t dead = 0;
    for (const RecoveredTask& task : tasks) {
      const bool is_dead = task.state == TaskState::dead;
      connection.execute(task_sql::recover, task.id.value, is_dead, now);
      dead += is_dead ? 1 : 0;
    }
    connection.execute(task_sql::note_recovered, static_cast<std::int64_t>(tasks.size()) - dead,
                       dead);
    recovered.last.id = tasks.back().id;
    return recovered;
  });
}

Upkeep SqliteTaskStore::look_after(std::string_view /*process*/,
                                   const std::optional<RecoveryOptions>& options) {
  if (!options) return {};
  // Only read at first: idle workers that poll must not keep others from writing.
  const bool any_expired = database_->read([](Connection& connection) {
    auto row = connection.prepare(task_sql::any_expired, since_boot());
    return row.step() && row.integer(0) != 0;
  });
  if (!any_expired) return {};
  return {.recovered = recover({}, *options).tasks};
}

}  // namespace leasehold::inline v0::sqlite
