#include "sqlite/tasks/sqlite_task_store.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "leasehold/errors.hpp"
#include "sqlite/database/callers_connection.hpp"
#include "sqlite/database/machine_clock.hpp"
#include "sqlite/database/schema.hpp"
#include "sqlite/tasks/sqlite_task_listener.hpp"
#include "sqlite_task_schema.hpp"
#include "sqlite_task_sql.hpp"
#include "support/quote.hpp"
#include "tasks/names.hpp"
#include "tasks/validation.hpp"

namespace leasehold::inline v0 {
namespace sqlite {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr std::size_t few = 4;  // so many tasks one statement each is faster than one for all

system_clock::time_point to_time(std::int64_t us_since_1970) {
  return system_clock::time_point{microseconds{us_since_1970}};
}

std::int64_t us_since_1970(system_clock::time_point time) {
  return std::chrono::floor<microseconds>(time.time_since_epoch()).count();
}

/// The columns of a row from the first to the last.
class Columns {
 public:
  explicit Columns(const Statement& row, int first = 0) : row_(row), at_(first) {}

  std::int64_t number() { return row_.integer(at_++); }
  int small_number() { return static_cast<int>(number()); }
  std::string_view view() { return row_.text(at_++); }
  /// Empty for null.
  std::string text() { return std::string(view()); }
  std::optional<std::string> optional_text() {
    if (row_.is_null(at_)) return skip();
    return text();
  }
  system_clock::time_point time() { return to_time(number()); }
  std::optional<system_clock::time_point> optional_time() {
    if (row_.is_null(at_)) return skip();
    return time();
  }

 private:
  std::nullopt_t skip() {
    ++at_;
    return std::nullopt;
  }

  const Statement& row_;
  int at_;
};

// Braced initialisers are evaluated from left to right: the fields come in the order of the
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

/// When a lease that begins now ends: for the clock that judges, and to be shown.
struct LeaseEnd {
  explicit LeaseEnd(milliseconds duration)
      : now(wall_clock()), deadline(since_boot() + duration), expiry(now + duration) {}

  microseconds now;
  milliseconds deadline;
  microseconds expiry;
};

/// Whether a statement found a row to change.
template <class... Values>
bool changed(Connection& connection, const EmbeddedText& sql, const Values&... values) {
  return connection.execute(sql, values...) > 0;
}

/// Which file that is, by whatever path.
std::optional<std::pair<dev_t, ino_t>> identity_of(const std::string& path) {
  struct stat status {};
  if (path.empty() || stat(path.c_str(), &status) != 0) return std::nullopt;
  return std::pair(status.st_dev, status.st_ino);
}

/// Appends the first tasks of a type that are due, in the order in which they are leased, as they
/// will be once they are.
void append_due(std::vector<LeasedTask>& tasks, Connection& connection, const std::string& type,
                std::size_t most, microseconds now) {
  int below = std::numeric_limits<int>::max();
  for (bool another_level = true; another_level;) {
    another_level = false;
    auto row = connection.prepare(task_sql::due, type, below);
    for (; most > 0 && row.step(); --most) {
      if (row.integer(2) > now.count()) {  // so is the rest of this priority
        below = static_cast<int>(row.integer(1));
        another_level = true;
        break;
      }
      Columns c(row);
      LeasedTask& task = tasks.emplace_back();
      task.type = type;
      task.key.id.value = c.number();
      task.priority = c.small_number();
      task.run_at_us = c.number();
      task.key.version.value = c.number() + 1;
      task.payload = c.view();
      task.progress = c.view();
      task.attempts = c.small_number() + 1;
      task.max_attempts = c.small_number();
      task.crash_count = c.small_number();
    }
  }
}

/// One call of lease(), inside a transaction.
class Claim {
 public:
  Claim(Connection& connection, const LeaseRequest& request)
      : connection_(connection), request_(request), end_(request.duration) {}

  /// Each type gets its share, the one at `turn` first; what some do not use goes to the others.
  std::vector<LeasedTask> run(std::size_t turn) {
    const std::size_t types = request_.types.size();
    const std::size_t share = (request_.limit + types - 1) / types;
    std::vector<std::size_t> with_more;
    for (std::size_t i = 0; i < types && missing() > 0; ++i) {
      const std::size_t type = (turn + i) % types;
      if (lease(request_.types[type], share) == share) with_more.push_back(type);
    }
    if (types > 1) {
      for (const std::size_t type : with_more) {
        if (missing() > 0) lease(request_.types[type], missing());
      }
      std::sort(tasks_.begin(), tasks_.end(), [](const auto& a, const auto& b) {
        return std::tuple(-a.priority, a.run_at_us, a.key.id) <
               std::tuple(-b.priority, b.run_at_us, b.key.id);
      });
    }
    return std::move(tasks_);
  }

 private:
  std::size_t missing() const { return request_.limit - tasks_.size(); }

  std::size_t lease(const std::string& type, std::size_t share) {
    const std::size_t before = tasks_.size();
    append_due(tasks_, connection_, type, std::min(share, missing()), end_.now);
    for (auto first = tasks_.begin() + std::ptrdiff_t(before); first != tasks_.end();) {
      const auto end_of_level = std::find_if(first, tasks_.end(), [&](const LeasedTask& task) {
        return task.priority != first->priority;
      });
      lease_level({first, end_of_level});
      first = end_of_level;
    }
    return tasks_.size() - before;
  }

  /// Tasks of one type and priority, from the first one that is due.
  void lease_level(std::span<const LeasedTask> level) {
    if (level.size() <= few) {
      for (const LeasedTask& task : level) {
        connection_.execute(task_sql::lease, task.key.id.value, request_.worker, end_.deadline,
                            end_.expiry, end_.now);
      }
      return;
    }
    const auto [lowest, highest] = std::minmax_element(
        level.begin(), level.end(),
        [](const LeasedTask& a, const LeasedTask& b) { return a.key.id.value < b.key.id.value; });
    const std::int64_t first = lowest->key.id.value;
    const std::int64_t last = highest->key.id.value;
    const bool one_after_another = last - first + 1 == std::ssize(level);
    const auto leased =
        one_after_another  // as in most queues, and faster
            ? connection_.execute(task_sql::lease_range, first, last, request_.worker,
                                  end_.deadline, end_.expiry, end_.now)
            : connection_.execute(task_sql::lease_level, level.front().type, level.front().priority,
                                  level.size(), request_.worker, end_.deadline, end_.expiry,
                                  end_.now);
    if (leased != std::int64_t(level.size())) {
      throw std::logic_error("leased " + std::to_string(leased) + " tasks instead of " +
                             std::to_string(level.size()));
    }
  }

  Connection& connection_;
  const LeaseRequest& request_;
  const LeaseEnd end_;
  std::vector<LeasedTask> tasks_;
};

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

bool finish(Connection& connection, const FinishedTask& task, Keep keep, microseconds now) {
  const auto& [id, version] = task.key;
  if (keep == Keep::no) {
    return changed(connection, task_sql::complete_and_delete, id.value, version.value);
  }
  const auto result = task.result.empty() ? std::nullopt : std::optional(task.result);
  return changed(connection, task_sql::complete, id.value, version.value, result, now);
}

struct SomeAreStale {};

/// Whether there is nothing between them. They must be in order.
bool is_range(std::span<const FinishedTask> tasks) {
  const LeaseKey first = tasks.front().key;
  std::int64_t next = first.id.value;
  return std::all_of(tasks.begin(), tasks.end(), [&](const FinishedTask& task) {
    return task.key.id.value == next++ && task.key.version == first.version;
  });
}

/// Deletes them all, or throws SomeAreStale.
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

/// What decides about a change of a task.
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

OpenOptions open_options(const TaskQueueOptions& options) {
  return {.timeout = options.sqlite.timeout,
          .schema = {.kind = "tasks",
                     .migrations = task_schema::all,
                     .on_new_boot = &task_sql::new_boot},
          .durability = Durability::power_failure};
}

SqliteTaskStore::SqliteTaskStore(std::shared_ptr<Database> database,
                                 const TaskQueueOptions& options)
    : database_(std::move(database)), options_(options) {}

template <class Fn>
auto SqliteTaskStore::write(Fn&& fn) {
  return database_->write(fn);
}

template <class Fn>
auto SqliteTaskStore::read(Fn&& fn) {
  return database_->read(fn);
}

std::vector<Enqueued> SqliteTaskStore::enqueue(std::span<const NewTask> tasks) {
  auto answers = write([&](Connection& connection) { return add(connection, tasks); });
  tell_workers();
  return answers;
}

std::vector<LeasedTask> SqliteTaskStore::lease(const LeaseRequest& request) {
  // Who looks again and again and finds nothing must not keep others from writing.
  if (found_nothing_.load(std::memory_order_relaxed)) {
    const bool any = read([&](Connection& connection) {
      const auto now = wall_clock();
      return std::any_of(request.types.begin(), request.types.end(), [&](const auto& type) {
        std::vector<LeasedTask> due;
        append_due(due, connection, type, 1, now);
        return !due.empty();
      });
    });
    if (!any) return {};
  }
  const std::size_t turn = turns_.next(request.types);
  auto tasks = write([&](Connection& connection) { return Claim(connection, request).run(turn); });
  found_nothing_.store(tasks.empty(), std::memory_order_relaxed);
  return tasks;
}

std::vector<TaskId> SqliteTaskStore::extend(std::span<const LeaseKey> keys, milliseconds duration) {
  return write([&](Connection& connection) {
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
      write([&](Connection& connection) { delete_finished(connection, tasks); });
      std::vector<TaskId> accepted;
      accepted.reserve(tasks.size());
      for (const FinishedTask& task : tasks) accepted.push_back(task.key.id);
      return accepted;
    } catch (const SomeAreStale&) {
      // Rolled back. Which ones they are only each one by itself tells.
    }
  }
  return write([&](Connection& connection) {
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
  return write([&](Connection& connection) {
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
  return write([&](Connection& connection) {
    return changed(connection, task_sql::progress, key.id.value, key.version.value, json,
                   wall_clock())
               ? LeaseWrite::accepted
               : LeaseWrite::stale;
  });
}

FailOutcome SqliteTaskStore::fail(const LeaseKey& key, const Failure& failure) {
  return write([&](Connection& connection) {
    const auto delay =
        failure.retry_after ? std::optional<microseconds>(*failure.retry_after) : std::nullopt;
    auto row = connection.prepare(task_sql::fail, key.id.value, key.version.value, failure.error,
                                  delay, wall_clock());
    if (!row.step()) return FailOutcome::stale;
    return to_state(row.text(0)) == TaskState::dead ? FailOutcome::dead : FailOutcome::retried;
  });
}

std::optional<TaskRecord> SqliteTaskStore::get(TaskId id) {
  return read([&](Connection& connection) -> std::optional<TaskRecord> {
    auto row = connection.prepare(task_sql::get, id.value);
    if (!row.step()) return std::nullopt;
    return to_task_record(row);
  });
}

std::vector<TaskRecord> SqliteTaskStore::list(const TaskFilter& filter) {
  return read([&](Connection& connection) {
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
  return read([&](Connection& connection) {
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
  return read([&](Connection& connection) {
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

Update SqliteTaskStore::update(TaskId id, TaskVersion expected, const TaskChanges& changes) {
  return write([&](Connection& connection) -> Update {
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
  return write([&](Connection& connection) {
    const auto met = peek(connection, id);
    if (!met) return CancelOutcome::not_found;
    if (!changed(connection, task_sql::cancel, id.value, wall_clock()))
      return CancelOutcome::finished;
    return met->state == TaskState::leased ? CancelOutcome::was_leased : CancelOutcome::was_pending;
  });
}

RetryOutcome SqliteTaskStore::retry(TaskId id) {
  const auto outcome = write([&](Connection& connection) {
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
  if (outcome == RetryOutcome::requeued) tell_workers();
  return outcome;
}

std::vector<RecoveredTask> SqliteTaskStore::recover(TaskId after, const RecoveryOptions& options) {
  return write([&](Connection& connection) {
    const milliseconds machine = since_boot();
    std::vector<RecoveredTask> tasks;
    {
      auto row = connection.prepare(task_sql::expired, machine, after.value, options.batch,
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
    return tasks;
  });
}

std::uint64_t SqliteTaskStore::remove_finished(TaskState state, milliseconds age,
                                               std::size_t chunk) {
  return write([&](Connection& connection) {
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
    return std::uint64_t{removed};
  });
}

void SqliteTaskStore::tell_workers() const {
  if (options_.notify == Notify::on) database_->hub().tell(tasks_topic, {});
}

std::unique_ptr<TaskListener> SqliteTaskStore::listen() const {
  return std::make_unique<SqliteTaskListener>(database_);
}

std::unique_ptr<TaskStore> SqliteTaskStore::twin(milliseconds patience) const {
  // Another connection to a file waits its turn to write beside ours and not behind it.
  auto database = database_;
  if (database_->uri().kind == SqliteUri::Kind::file) {
    auto options = open_options(options_);
    options.timeout = std::min(options.timeout, patience);
    options.busy_retries = database_->retry_counter();
    database = open_database(database_->uri(), options);
  }
  return std::make_unique<SqliteTaskStore>(std::move(database), options_);
}

void SqliteTaskStore::transact(const std::function<void(sqlite3*)>& work) {
  write([&](Connection& connection) {
    const Inside inside(*database_, connection);
    work(connection.handle());
  });
  tell_workers();
}

void SqliteTaskStore::check_callers(sqlite3* connection) const {
  const bool is_ours = Inside::find([&](const Inside& inside) {
    return &inside.database() == database_.get() && inside.connection().handle() == connection;
  });
  if (is_ours) return;
  if (database_->uri().kind != SqliteUri::Kind::file) {
    throw InvalidArgument(where() +
                          ": a database in memory has no second connection: use transact()");
  }
  check_in_transaction(connection);
  const std::string path = path_of(connection);
  const auto ours = identity_of(database_->uri().path);
  if (!ours || identity_of(path) != ours) {
    throw InvalidArgument("the connection's main database is " + in_quotes(path) +
                          ", and the queue is in " + where() +
                          ": a transaction can only join the queue of its own file");
  }
}

std::vector<Enqueued> SqliteTaskStore::enqueue_in(sqlite3* connection,
                                                  std::span<const NewTask> tasks) {
  check_callers(connection);
  return in_callers_transaction(connection, where(),
                                [&](Connection& callers) { return add(callers, tasks); });
}

LeaseWrite SqliteTaskStore::complete_in(sqlite3* connection, const FinishedTask& task, Keep keep) {
  return in_callers_transaction(connection, where(), [&](Connection& callers) {
    return finish(callers, task, keep, wall_clock()) ? LeaseWrite::accepted : LeaseWrite::stale;
  });
}

}  // namespace sqlite

std::unique_ptr<TaskStore> open_sqlite_task_store(std::string_view uri,
                                                  const TaskQueueOptions& options) {
  const auto parsed = sqlite::parse_sqlite_uri(uri);
  if (!parsed) return nullptr;
  check_sqlite_options(options.sqlite);
  return std::make_unique<sqlite::SqliteTaskStore>(
      sqlite::open_database(*parsed, sqlite::open_options(options)), options);
}

std::optional<MigrateReport> migrate_sqlite(std::string_view uri) {
  const auto parsed = sqlite::parse_sqlite_uri(uri);
  if (!parsed) return std::nullopt;
  auto options = sqlite::open_options({});
  options.strangers = sqlite::Strangers::joined;
  MigrateReport report;
  report.from = sqlite::open_and_look(*parsed, options).version_found;
  for (const EmbeddedText* migration : sqlite::task_schema::all) {
    report.to = sqlite::version_of(*migration);
    if (report.to > report.from) report.applied.emplace_back(migration->name);
  }
  return report;
}

}  // namespace leasehold::inline v0
