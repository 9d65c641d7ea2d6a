#include <algorithm>
#include <span>
#include <tuple>

#include "sqlite/database/callers_connection.hpp"
#include "sqlite/tasks/columns.hpp"
#include "sqlite/tasks/lease_end.hpp"
#include "sqlite/tasks/sqlite_task_store.hpp"
#include "sqlite_task_sql.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Executes a write that names the lease first. Returns false if the lease is stale.
template <class... Values>
bool written(Connection& connection, const EmbeddedText& sql, const LeaseKey& key,
             const Values&... values) {
  return changed(connection, sql, key.id.value, key.version.value, key.lease.value, values...);
}

/// Completes a task. Returns false if its lease is stale.
bool finish(Connection& connection, const FinishedTask& task, Keep keep, microseconds now) {
  if (keep == Keep::no) return written(connection, task_sql::complete_and_delete, task.key);
  const auto result = task.result.empty() ? std::nullopt : std::optional(task.result);
  return written(connection, task_sql::complete, task.key, result, now);
}

struct SomeAreStale {};

/// Deletes tasks with the same version and lease id, sorted by id. Returns how many were deleted.
std::int64_t delete_alike(Connection& connection, std::span<const LeaseKey> keys) {
  const auto [first, version, lease] = keys.front();
  const TaskId last = keys.back().id;
  if (last.value - first.value + 1 == std::ssize(keys)) {
    return connection.execute(task_sql::complete_and_delete_range, first.value, last.value,
                              version.value, lease.value);
  }
  std::string ids;
  for (const LeaseKey& key : keys) {
    ids += (ids.empty() ? '[' : ',') + std::to_string(key.id.value);
  }
  ids += ']';
  return connection.execute(task_sql::complete_and_delete_many, ids, version.value, lease.value);
}

/// Deletes all tasks, or throws SomeAreStale.
void delete_finished(Connection& connection, std::span<const FinishedTask> tasks) {
  std::vector<LeaseKey> keys;
  keys.reserve(tasks.size());
  for (const FinishedTask& task : tasks) keys.push_back(task.key);
  std::sort(keys.begin(), keys.end(), [](const LeaseKey& a, const LeaseKey& b) {
    return std::tie(a.lease, a.version, a.id) < std::tie(b.lease, b.version, b.id);
  });
  for (auto first = keys.begin(); first != keys.end();) {
    const auto last = std::find_if(first, keys.end(), [&](const LeaseKey& key) {
      return key.lease != first->lease || key.version != first->version;
    });
    if (delete_alike(connection, {first, last}) != last - first) throw SomeAreStale{};
    first = last;
  }
}

}  // namespace

Renewed SqliteTaskStore::extend(std::span<const Renewable> leases, milliseconds duration) {
  return database_->write([&](Connection& connection) {
    const LeaseEnd end(duration);
    Renewed answer;
    for (const auto& [key, started] : leases) {
      if (written(connection, task_sql::extend, key, end.deadline, end.expiry, end.now, started)) {
        answer.renewed.push_back(key.name());
      }
    }
    return answer;
  });
}

std::vector<LeaseName> SqliteTaskStore::complete(std::span<const FinishedTask> tasks, Keep keep) {
  if (keep == Keep::no && tasks.size() > few) {
    try {
      database_->write([&](Connection& connection) { delete_finished(connection, tasks); });
      std::vector<LeaseName> accepted;
      accepted.reserve(tasks.size());
      for (const FinishedTask& task : tasks) accepted.push_back(task.key.name());
      return accepted;
    } catch (const SomeAreStale&) {
      // Rolled back. One by one shows which ones are stale.
    }
  }
  return database_->write([&](Connection& connection) {
    std::vector<LeaseName> accepted;
    accepted.reserve(tasks.size());
    const microseconds now = wall_clock();
    for (const FinishedTask& task : tasks) {
      if (finish(connection, task, keep, now)) accepted.push_back(task.key.name());
    }
    return accepted;
  });
}

std::vector<LeaseName> SqliteTaskStore::release(std::span<const LeaseKey> keys,
                                                std::optional<milliseconds> delay, GivenBack when) {
  return database_->write([&](Connection& connection) {
    const microseconds now = wall_clock();
    const auto run_at = delay ? std::optional(now + *delay) : std::nullopt;
    std::vector<LeaseName> accepted;
    for (const LeaseKey& key : keys) {
      if (written(connection, task_sql::release, key, run_at, now, when == GivenBack::in_order)) {
        accepted.push_back(key.name());
      }
    }
    return accepted;
  });
}

LeaseWrite SqliteTaskStore::progress(const LeaseKey& key, std::string_view json) {
  return database_->write([&](Connection& connection) {
    return written(connection, task_sql::progress, key, json, wall_clock()) ? LeaseWrite::accepted
                                                                            : LeaseWrite::stale;
  });
}

std::vector<FailOutcome> SqliteTaskStore::fail(std::span<const FailedTask> tasks) {
  return database_->write([&](Connection& connection) {
    const microseconds now = wall_clock();
    std::vector<FailOutcome> outcomes;
    outcomes.reserve(tasks.size());
    for (const auto& [key, error, retry_after] : tasks) {
      const auto delay = retry_after ? std::optional<microseconds>(*retry_after) : std::nullopt;
      auto row = connection.prepare(task_sql::fail, key.id.value, key.version.value,
                                    key.lease.value, error, delay, now);
      if (!row.step()) {
        outcomes.push_back(FailOutcome::stale);
      } else {
        const bool dead = to_state(row.text(0)) == TaskState::dead;
        outcomes.push_back(dead ? FailOutcome::dead : FailOutcome::retried);
      }
    }
    return outcomes;
  });
}

LeaseWrite SqliteTaskStore::complete_in(const CallersTransaction& transaction,
                                        const FinishedTask& task, Keep keep) {
  return in_callers_transaction(std::get<sqlite3*>(transaction), where(), [&](Connection& callers) {
    return finish(callers, task, keep, wall_clock()) ? LeaseWrite::accepted : LeaseWrite::stale;
  });
}

}  // namespace leasehold::inline v0::sqlite
