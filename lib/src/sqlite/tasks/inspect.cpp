#include <algorithm>

#include "sqlite/database/machine_clock.hpp"
#include "sqlite/tasks/columns.hpp"
#include "sqlite/tasks/sqlite_task_store.hpp"
#include "sqlite_task_sql.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Braced initialisers are evaluated from left to right, so the fields are in the order of the
// columns.
TaskRecord to_task_record(const Statement& row) {
  Columns c(row);
  return {
      .id = TaskId{c.number()},
      .version = TaskVersion{c.number()},
      .type = c.text(),
      .state = to_state(c.view()),
      .priority = c.small_number(),
      .payload = c.text(),
      .progress = c.optional_text(),
      .result = c.optional_text(),
      .run_at = c.time(),
      .leased_by = c.text(),
      .lease_expiry = c.optional_time(),
      .attempts = c.small_number(),
      .max_attempts = c.small_number(),
      .crash_count = c.small_number(),
      .unique_key = c.text(),
      .last_error = c.text(),
      .created_at = c.time(),
      .updated_at = c.time(),
      .finished_at = c.optional_time(),
  };
}

}  // namespace

std::optional<TaskRecord> SqliteTaskStore::get(TaskId id) {
  return database_->read([&](Connection& connection) -> std::optional<TaskRecord> {
    auto row = connection.prepare(task_sql::get, id.value);
    if (!row.step()) return std::nullopt;
    return to_task_record(row);
  });
}

std::vector<TaskRecord> SqliteTaskStore::list(const TaskFilter& filter) {
  return database_->read([&](Connection& connection) {
    const auto state =
        filter.state ? std::optional<std::string_view>(to_string(*filter.state)) : std::nullopt;
    auto row = connection.prepare(task_sql::list, filter.type, state, filter.worker,
                                  filter.after.value, filter.limit);
    std::vector<TaskRecord> tasks;
    while (row.step()) tasks.push_back(to_task_record(row));
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
    return health;
  });
}

}  // namespace leasehold::inline v0::sqlite
