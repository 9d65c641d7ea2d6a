#include <algorithm>

#include "sqlite/database/machine_clock.hpp"
#include "sqlite/tasks/columns.hpp"
#include "sqlite/tasks/sqlite_task_store.hpp"
#include "sqlite_task_sql.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TaskRecord to_task_record(Columns& c) {
  TaskRecord task;
  task.id.value = c.number();
  task.version.value = c.number();
  task.type = c.text();
  task.state = to_state(c.view());
  task.priority = c.small_number();
  task.run_at = c.time();
  task.leased_by = c.text();
  task.leased_at = c.optional_time();
  task.lease_expiry = c.optional_time();
  task.attempts = c.small_number();
  task.max_attempts = c.small_number();
  task.crash_count = c.small_number();
  task.unique_key = c.text();
  task.last_error = c.text();
  task.created_at = c.time();
  task.updated_at = c.time();
  task.finished_at = c.optional_time();
  task.payload = c.text();
  task.progress = c.optional_text();
  task.result = c.optional_text();
  return task;
}

/// A page of tasks. Each state has a statement of its own, so that tasks in other states are not
/// read.
Statement list_by(Connection& connection, const TaskFilter& filter) {
  const auto prepare = [&](const EmbeddedText& sql, const auto&... more) {
    return connection.prepare(sql, filter.type, filter.worker, filter.after.value, filter.limit,
                              filter.payloads == Payloads::with, more...);
  };
  if (!filter.state) return prepare(task_sql::list);
  if (*filter.state == TaskState::pending) return prepare(task_sql::list_pending);
  if (*filter.state == TaskState::leased) return prepare(task_sql::list_leased);
  return prepare(task_sql::list_finished, std::string_view(to_string(*filter.state)));
}

}  // namespace

std::optional<StoredTask> SqliteTaskStore::get(TaskId id) {
  return database_->read([&](Connection& connection) -> std::optional<StoredTask> {
    auto row = connection.prepare(task_sql::get, id.value);
    if (!row.step()) return std::nullopt;
    Columns c(row);
    StoredTask stored{.record = to_task_record(c), .lease = {}};
    stored.lease.value = c.number();
    return stored;
  });
}

std::vector<TaskRecord> SqliteTaskStore::list(const TaskFilter& filter) {
  return database_->read([&](Connection& connection) {
    auto row = list_by(connection, filter);
    std::vector<TaskRecord> tasks;
    while (row.step()) {
      Columns c(row);
      tasks.push_back(to_task_record(c));
    }
    return tasks;
  });
}

std::vector<TaskCount> SqliteTaskStore::counts(std::uint64_t at_most) {
  constexpr std::uint64_t most = 1'000'000'000'000;
  at_most = std::min(at_most, most);
  return database_->read([&](Connection& connection) {
    std::vector<TaskCount> counts;
    auto row = connection.prepare(task_sql::counts, at_most);
    while (row.step()) {
      TaskCount& count = counts.emplace_back();
      count.type = row.text(0);
      count.state = to_state(row.text(1));
      count.number = static_cast<std::uint64_t>(row.integer(2));
      if (count.state != TaskState::leased && count.number > at_most) {
        count.number = at_most;
        count.more = true;
      }
    }
    return counts;
  });
}

QueueHealth SqliteTaskStore::health() {
  constexpr int most_rows = 100'000;  // counting costs some ms
  return database_->read([&](Connection& connection) {
    const microseconds now = wall_clock();
    const milliseconds machine = since_boot();
    auto row = connection.prepare(task_sql::health, now, machine, most_rows);
    row.step();
    QueueHealth health;
    if (!row.is_null(0)) {
      health.oldest_ready = std::chrono::floor<milliseconds>(now - microseconds{row.integer(0)});
    }
    if (!row.is_null(1)) health.oldest_expired = machine - milliseconds{row.integer(1)};
    health.live_rows = static_cast<std::uint64_t>(row.integer(2));
    health.recovered_requeued = static_cast<std::uint64_t>(row.integer(3));
    health.recovered_dead = static_cast<std::uint64_t>(row.integer(4));
    return health;
  });
}

}  // namespace leasehold::inline v0::sqlite
