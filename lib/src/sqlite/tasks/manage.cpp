#include "sqlite/database/machine_clock.hpp"
#include "sqlite/tasks/columns.hpp"
#include "sqlite/tasks/sqlite_task_store.hpp"
#include "sqlite_task_sql.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// What decides whether a task may be changed.
struct Peek {
  TaskState state;
  TaskVersion version;
};
std::optional<Peek> peek(Connection& connection, TaskId id) {
  auto row = connection.prepare(task_sql::peek, id.value);
  if (!row.step()) return std::nullopt;
  return Peek{to_state(row.text(0)), TaskVersion{row.integer(1)}};
}

}  // namespace

Update SqliteTaskStore::update(TaskId id, TaskVersion expected, const TaskChanges& changes) {
  return database_->write([&](Connection& connection) -> Update {
    const auto run_at =
        changes.run_at ? std::optional(us_since_1970(*changes.run_at)) : std::nullopt;
    auto row = connection.prepare(task_sql::update, id.value, expected.value, changes.payload,
                                  changes.priority, run_at, changes.progress, wall_clock());
    if (row.step()) return {Update::Outcome::updated, TaskVersion{row.integer(0)}};
    const auto met = peek(connection, id);
    if (!met) return {Update::Outcome::not_found, {}};
    if (met->version == expected) return {Update::Outcome::leased, expected};
    return {Update::Outcome::conflict, met->version};
  });
}

CancelOutcome SqliteTaskStore::cancel(TaskId id) {
  return database_->write([&](Connection& connection) {
    const auto met = peek(connection, id);
    if (!met) return CancelOutcome::not_found;
    if (!changed(connection, task_sql::cancel, id.value, wall_clock()))
      return CancelOutcome::finished;
    return met->state == TaskState::leased ? CancelOutcome::was_leased : CancelOutcome::was_pending;
  });
}

RetryOutcome SqliteTaskStore::retry(TaskId id) {
  const auto outcome = database_->write([&](Connection& connection) {
    const auto met = peek(connection, id);
    if (!met) return RetryOutcome::not_found;
    if (met->state != TaskState::dead && met->state != TaskState::cancelled) {
      return RetryOutcome::not_dead;
    }
    if (!changed(connection, task_sql::retry, id.value, wall_clock()))
      return RetryOutcome::key_taken;
    if (options_.notify == Notify::on) connection.execute(task_sql::tell);
    return RetryOutcome::requeued;
  });
  if (outcome == RetryOutcome::requeued) notify_workers();
  return outcome;
}

Removed SqliteTaskStore::remove_finished(TaskState state, milliseconds age, std::size_t chunk) {
  return database_->write([&](Connection& connection) {
    const std::string_view in_state = to_string(state);
    const microseconds before = wall_clock() - age;
    std::size_t removed = 0;
    std::string type;
    while (removed < chunk) {
      {
        auto next = connection.prepare(task_sql::finished_type, in_state, type);
        next.step();
        if (next.is_null(0)) break;
        type = std::string(next.text(0));
      }
      removed += static_cast<std::size_t>(
          connection.execute(task_sql::remove_finished, in_state, type, before, chunk - removed));
    }
    return Removed{.tasks = removed, .more = removed == chunk};
  });
}

}  // namespace leasehold::inline v0::sqlite
