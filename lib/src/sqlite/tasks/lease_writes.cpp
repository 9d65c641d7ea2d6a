#include <algorithm>
#include <span>

#include "sqlite/database/callers_connection.hpp"
#include "sqlite/tasks/columns.hpp"
#include "sqlite/tasks/lease_end.hpp"
#include "sqlite/tasks/sqlite_task_store.hpp"
#include "sqlite_task_sql.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Completes a task. Returns false if its lease is stale.
bool finish(Connection& connection, const FinishedTask& task, Keep keep, microseconds now) {
  const auto& [id, version] = task.key;
  if (keep == Keep::no) {
    return changed(connection, task_sql::complete_and_delete, id.value, version.value);
  }
  const auto result = task.result.empty() ? std::nullopt : std::optional(task.result);
  return changed(connection, task_sql::complete, id.value, version.value, result, now);
}

struct SomeAreStale {};

/// Whether the ids follow each other and the versions are the same. The tasks must be sorted by id.
bool is_range(std::span<const FinishedTask> tasks) {
  const LeaseKey first = tasks.front().key;
  std::int64_t next = first.id.value;
  return std::all_of(tasks.begin(), tasks.end(), [&](const FinishedTask& task) {
    return task.key.id.value == next++ && task.key.version == first.version;
  });
}

/// Deletes all tasks, or throws SomeAreStale.
void delete_finished(Connection& connection, std::span<const FinishedTask> tasks) {
  if (is_range(tasks)) {
    const auto deleted =
        connection.execute(task_sql::complete_and_delete_range, tasks.front().key.id.value,
                           tasks.back().key.id.value, tasks.front().key.version.value);
    if (deleted != std::ssize(tasks)) throw SomeAreStale{};
    return;
  }
  std::string versions = "{";
  for (const FinishedTask& task : tasks) {
    versions += (versions.size() > 1 ? ",\"" : "\"") + std::to_string(task.key.id.value) +
                "\":" + std::to_string(task.key.version.value);
  }
  versions += '}';
  const auto deleted = connection.execute(task_sql::complete_and_delete_many, versions);
  if (deleted != std::ssize(tasks)) throw SomeAreStale{};
}

}  // namespace

std::vector<TaskId> SqliteTaskStore::extend(std::span<const LeaseKey> keys, milliseconds duration) {
  return database_->write([&](Connection& connection) {
    const LeaseEnd end(duration);
    std::vector<TaskId> accepted;
    for (const auto& [id, version] : keys) {
      if (changed(connection, task_sql::extend, id.value, version.value, end.deadline, end.expiry,
                  end.now)) {
        accepted.push_back(id);
      }
    }
    return accepted;
  });
}

std::vector<TaskId> SqliteTaskStore::complete(std::span<const FinishedTask> tasks, Keep keep) {
  if (keep == Keep::no && tasks.size() > few) {
    try {
      database_->write([&](Connection& connection) { delete_finished(connection, tasks); });
      std::vector<TaskId> accepted;
      accepted.reserve(tasks.size());
      for (const FinishedTask& task : tasks) accepted.push_back(task.key.id);
      return accepted;
    } catch (const SomeAreStale&) {
      // Rolled back. One by one shows which ones are stale.
    }
  }
  return database_->write([&](Connection& connection) {
    std::vector<TaskId> accepted;
    accepted.reserve(tasks.size());
    const microseconds now = wall_clock();
    for (const FinishedTask& task : tasks) {
      if (finish(connection, task, keep, now)) accepted.push_back(task.key.id);
    }
    return accepted;
  });
}

std::vector<TaskId> SqliteTaskStore::release(std::span<const LeaseKey> keys,
                                             std::optional<milliseconds> delay) {
  return database_->write([&](Connection& connection) {
    const microseconds now = wall_clock();
    const auto run_at = delay ? std::optional(now + *delay) : std::nullopt;
    std::vector<TaskId> accepted;
    for (const auto& [id, version] : keys) {
      if (changed(connection, task_sql::release, id.value, version.value, run_at, now)) {
        accepted.push_back(id);
      }
    }
    return accepted;
  });
}

LeaseWrite SqliteTaskStore::progress(const LeaseKey& key, std::string_view json) {
  return database_->write([&](Connection& connection) {
    return changed(connection, task_sql::progress, key.id.value, key.version.value, json,
                   wall_clock())
               ? LeaseWrite::accepted
               : LeaseWrite::stale;
  });
}

FailOutcome SqliteTaskStore::fail(const LeaseKey& key, const Failure& failure) {
  return database_->write([&](Connection& connection) {
    const auto delay =
        failure.retry_after ? std::optional<microseconds>(*failure.retry_after) : std::nullopt;
    auto row = connection.prepare(task_sql::fail, key.id.value, key.version.value, failure.error,
                                  delay, wall_clock());
    if (!row.step()) return FailOutcome::stale;
    return to_state(row.text(0)) == TaskState::dead ? FailOutcome::dead : FailOutcome::retried;
  });
}

LeaseWrite SqliteTaskStore::complete_in(const CallersTransaction& transaction,
                                        const FinishedTask& task, Keep keep) {
  return in_callers_transaction(std::get<sqlite3*>(transaction), where(), [&](Connection& callers) {
    return finish(callers, task, keep, wall_clock()) ? LeaseWrite::accepted : LeaseWrite::stale;
  });
}

}  // namespace leasehold::inline v0::sqlite
