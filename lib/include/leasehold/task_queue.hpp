#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/export.hpp"
#include "leasehold/postgres_options.hpp"
#include "leasehold/queue_health.hpp"
#include "leasehold/recovery_options.hpp"
#include "leasehold/runner_id.hpp"
#include "leasehold/sqlite_options.hpp"
#include "leasehold/task_lease.hpp"
#include "leasehold/task_record.hpp"
#include "leasehold/task_stats.hpp"

namespace spdlog {
class logger;
}

namespace leasehold::inline v0 {

class QueueCore;  // internal

/// What happens to completed tasks.
class Retention {
 public:
  /// They are deleted when they are completed. This is the cheapest choice. Their results are not
  /// stored, and they cannot be looked up afterwards.
  static Retention delete_at_once() { return Retention{Kind::none, {}}; }
  /// They are kept for at least this long; then remove_finished() deletes them. In PostgreSQL,
  /// times of a day or more are rounded up to whole days (UTC), which are dropped at once.
  /// leaseholdd has a setting of its own. 0 to 10 years.
  static Retention keep_for(std::chrono::milliseconds time) { return Retention{Kind::time, time}; }
  static Retention keep_forever() { return Retention{Kind::ever, {}}; }

  bool deletes_at_once() const noexcept { return kind_ == Kind::none; }
  /// Empty if they are kept forever.
  std::optional<std::chrono::milliseconds> time() const noexcept {
    return kind_ == Kind::ever ? std::nullopt : std::optional{time_};
  }

 private:
  enum class Kind { none, time, ever };
  Retention(Kind kind, std::chrono::milliseconds time) : kind_(kind), time_(time) {}

  Kind kind_;
  std::chrono::milliseconds time_;
};

/// Whether enqueue() notifies waiting workers. In PostgreSQL this is one NOTIFY per call, on the
/// channel named like the schema, unless no task is due yet. Commits that notify wait for each
/// other on a lock of the whole server, which becomes noticeable at a few thousand single enqueues
/// per second.
enum class Notify {
  on,
  off,  ///< workers find new tasks by polling only
};

struct TaskQueueOptions {
  PostgresOptions postgres;  ///< used for postgresql://…
  SqliteOptions sqlite;      ///< used for sqlite:…

  /// The name of the worker for a LeaseRequest that gives none. Default:
  /// RunnerId::of_this_process().
  std::optional<RunnerId> runner;

  /// What happens to completed tasks. Default: they are kept for a day.
  Retention retention = Retention::keep_for(std::chrono::hours{24});

  /// The delays of Retry::by_policy().
  TaskBackoff backoff;

  /// The most bytes that a payload, progress or result may have, up to 64 MiB. PostgreSQL writes
  /// the whole row again whenever its task changes its state, so store large data elsewhere and
  /// refer to it. Default 1 MiB.
  std::size_t largest_payload = 1024 * 1024;

  /// Default on.
  Notify notify = Notify::on;

  /// How lease() takes back expired leases, of its own process and of others. About once a second
  /// one of the processes that lease tasks does so, at the cost of one more statement, so that the
  /// tasks of a crashed worker come back even if no leaseholdd runs. Empty: left to leaseholdd, or
  /// to a Recovery. Processes with different options should not share a queue, and leaseholdd's
  /// max-crashes should be the same: whoever recovers a lease first decides. Default: as
  /// RecoveryOptions says.
  std::optional<RecoveryOptions> recovery = RecoveryOptions{};

  /// Where to log. Default: warnings and errors go to stderr, the rest nowhere.
  std::shared_ptr<spdlog::logger> logger;
};

/// The result of adding one NewTask.
struct Enqueued {
  enum class Outcome {
    added,
    exists,  ///< not added: `id` is the pending or leased task with the same unique key
  };
  TaskId id;
  Outcome outcome = Outcome::added;
};

struct LeaseRequest {
  /// The types to lease, 1 to 1,000. Each gets a fair share of the limit, and what one type does
  /// not use goes to the others.
  std::vector<std::string> types;

  /// The most tasks to lease, 1 to 10,000. Default 1.
  std::size_t limit = 1;

  /// How long the lease lasts unless it is extended, 100 ms to 24 h. If this worker
  /// crashes, its tasks wait this long. Default 30 s.
  std::chrono::milliseconds duration{30'000};

  /// Names the worker: 1 to 256 bytes of UTF-8 without control characters. Default: the runner of
  /// the queue.
  std::string worker;

  /// The most bytes of payloads and progress that one call returns, 1 to 1 GiB. It returns fewer
  /// tasks if they are large, but always one if there is one. The memory needed for the reply is
  /// about twice as much. Default 16 MiB.
  std::size_t max_bytes = 16 * 1024 * 1024;
};

/// A lease that TaskQueue::complete() completes with a result.
struct Completion {
  TaskLease* lease = nullptr;
  std::string result;  ///< JSON, or empty for none
};

/// What update() changes. Members that are not set stay as they are.
struct TaskChanges {
  std::optional<std::string> payload;
  std::optional<int> priority;
  std::optional<std::chrono::system_clock::time_point> run_at;
  std::optional<std::string> progress;
};

struct Update {
  enum class Outcome {
    updated,    ///< `version` is the new one
    conflict,   ///< not changed: the task has another version, which is in `version`
    leased,     ///< not changed: the task is leased, and only its lease may write
    not_found,  ///< there is no such task
  };
  Outcome outcome = Outcome::not_found;
  TaskVersion version;
};

enum class CancelOutcome {
  was_pending,  ///< cancelled; no worker held it
  was_leased,   ///< cancelled; its worker learns of it with its next write or renewal
  finished,     ///< not changed: it had ended before
  not_found,    ///< there is no such task
};

enum class RetryOutcome {
  requeued,   ///< pending again, with all its attempts
  not_dead,   ///< not changed: the task is neither dead nor cancelled
  key_taken,  ///< not changed: another pending or leased task has its unique key
  not_found,  ///< there is no such task
};

LEASEHOLD_API const char* to_string(Enqueued::Outcome outcome) noexcept;
LEASEHOLD_API const char* to_string(Update::Outcome outcome) noexcept;
LEASEHOLD_API const char* to_string(CancelOutcome outcome) noexcept;
LEASEHOLD_API const char* to_string(RetryOutcome outcome) noexcept;

/// Whether listed tasks have their payload, progress and result.
enum class Payloads {
  with,
  without,  ///< they are empty, and were not read
};

/// Selects tasks to list. Members that are not set match every task.
struct TaskFilter {
  std::optional<TaskState> state;
  std::optional<std::string> type;
  std::optional<std::string> worker;
  TaskId after{0};          ///< only tasks with larger ids: pass the last id of the previous page
  std::size_t limit = 100;  ///< 1 to 10,000
  Payloads payloads = Payloads::with;
};

/// The number of tasks of one type in one state.
struct TaskCount {
  std::string type;
  TaskState state = TaskState::pending;
  std::uint64_t number = 0;
  bool more = false;  ///< counting stopped at `number`; there are more
};

/// Selects finished tasks to delete.
struct Removal {
  /// Completed, cancelled or dead tasks are deleted if they ended at least this long ago, 0 to
  /// 10 years. Default: empty, which means that no task in this state is deleted.
  std::optional<std::chrono::milliseconds> completed;
  std::optional<std::chrono::milliseconds> cancelled;
  std::optional<std::chrono::milliseconds> dead;

  /// How many tasks one statement deletes, 1 to 100,000. Larger chunks are faster and keep rows
  /// locked for longer. Default 1,000.
  std::size_t chunk = 1'000;

  /// How many tasks the call deletes at most, rounded up to whole chunks. Default: empty, which
  /// means all.
  std::optional<std::uint64_t> limit;
};

/// A queue of tasks, either in PostgreSQL or in SQLite: in a file that several processes of one
/// machine share, or in memory. In PostgreSQL, run migrate() first. In SQLite the tables are
/// created when they are missing.
///
/// SQLite allows one writer at a time, and every call is one transaction; where "one statement" is
/// mentioned below, it means that transaction. SQLite has no clock of its own. Leases expire by the
/// time since the machine was started, so setting the time of day cannot give a task to two
/// workers. `run_at` and retention do use the time of day. See docs/tasks.md.
///
/// Thread safety: every member may be called from any thread. Leases may outlive their queue.
///
/// Every member may throw InvalidArgument, Unavailable (it did not happen: the store is
/// unreachable), OutcomeUnknown (it may have happened: the connection was lost before the reply)
/// and ServerRefused. Deadlocks and serialization failures are retried a few times. A lost
/// connection is established again by the next call. If that fails, there is a pause, which grows
/// from 50 ms to 2 s, during which calls throw Unavailable without trying.
class LEASEHOLD_API TaskQueue {
 public:
  /// For PostgreSQL: TaskQueue{"postgresql://localhost/app"}, or libpq's key=value form. The first
  /// call connects.
  ///
  /// For SQLite: TaskQueue{"sqlite:tasks.db"} is a file. TaskQueue{"sqlite::memory:"} is
  /// private to this queue and disappears with it. TaskQueue{"sqlite::memory:name"} is shared by
  /// all queues of this process with that name, and disappears with the last of them. The
  /// constructor opens the database, and throws ServerRefused if the file belongs to another
  /// program, is read-only, or was created by a newer Leasehold. A child of fork() must not use its
  /// parent's queue.
  explicit TaskQueue(std::string_view uri, TaskQueueOptions options = {});

  TaskQueue(TaskQueue&&) noexcept;
  TaskQueue& operator=(TaskQueue&&) noexcept;
  ~TaskQueue();

  /// Adds a task. After OutcomeUnknown it is safe to repeat the call only if the task has a
  /// unique_key and cannot have ended meanwhile, which would have made the key free again. To add a
  /// task in a transaction of your own, use enqueue_in() of leasehold/postgres.hpp or
  /// leasehold/sqlite.hpp.
  Enqueued enqueue(const NewTask& task);

  /// Adds all tasks or none, in one statement. At most 100,000. The results have the same order.
  std::vector<Enqueued> enqueue(std::span<const NewTask> tasks);

  /// Throws InvalidArgument if enqueue() would refuse this task, without asking the store.
  static void check(const NewTask& task, const TaskQueueOptions& options = {});

  /// Leases tasks that are due, ordered by priority, then run_at, then id. Returns fewer than the
  /// limit, possibly none, if there are not enough. The cost is one statement, however many tasks
  /// there are; one more if some types have fewer tasks than their share; one more to look for
  /// tasks that came back; and about once a second one that takes back expired leases
  /// (TaskQueueOptions::recovery). If one of these fails, the tasks leased before it are returned.
  /// If the reply to a lease is lost, its tasks are given back by a later call.
  ///
  /// In a long queue, a task that comes back to a place before those just leased (recovered,
  /// released, or committed late) can be passed over for about 10 ms, or for up to 5 s while there
  /// is a long-running transaction. Tasks of a lower priority are never leased before it.
  std::vector<TaskLease> lease(const LeaseRequest& request);

  /// Renews all leases in one statement, except for those that were given to complete_in(), and
  /// those whose row another transaction has locked: they keep their valid_until(). Returns the
  /// tasks whose lease was stale.
  std::vector<TaskId> extend(std::span<TaskLease> leases);

  /// Completes all tasks in one statement. Returns those whose lease was stale. Throws
  /// ServerRefused (conflict), and completes none, if another transaction keeps one of the rows
  /// locked (see TaskLease). After OutcomeUnknown all leases are unchanged, and repeating the call
  /// finds out what the first one did.
  std::vector<TaskId> complete(std::span<TaskLease> leases);
  std::vector<TaskId> complete(std::span<const Completion> completions);

  /// Releases all leases in one statement. Returns the tasks whose lease was stale. Throws
  /// ServerRefused (conflict), and releases none, if another transaction keeps one of the rows
  /// locked.
  std::vector<TaskId> release(std::span<TaskLease> leases);

  /// Returns a task, or nothing if there is none with this id.
  std::optional<TaskRecord> get(TaskId id);

  /// Changes a task if it still has the version that get() returned. If two callers try, one of
  /// them gets a conflict. A leased task can be changed only through its lease.
  Update update(TaskId id, TaskVersion expected, const TaskChanges& changes);

  /// Cancels a pending or leased task.
  CancelOutcome cancel(TaskId id);

  /// Makes a dead or cancelled task pending again, with all its attempts.
  RetryOutcome retry(TaskId id);

  /// Returns a page of tasks, ordered by id.
  std::vector<TaskRecord> list(const TaskFilter& filter = {});

  /// Counts tasks by type and state, sorted. States without tasks are left out. Counting stops at
  /// `at_most` of each type and state (TaskCount::more), which bounds the cost: about 10 ms for
  /// 100,000 tasks counted, however large the table is. Leased tasks are always counted exactly.
  std::vector<TaskCount> counts(std::uint64_t at_most = 10'000);

  /// Returns the state of the queue. Costs one index look-up for each type and priority in use, and
  /// one pass over the leased tasks.
  QueueHealth health();

  /// Deletes completed tasks that are older than TaskQueueOptions::retention, and cancelled tasks
  /// that are older than a day. Dead tasks are kept. Returns how many were deleted.
  std::uint64_t remove_finished();

  /// Deletes the finished tasks that `removal` selects, chunk by chunk. Returns how many were
  /// deleted. Several processes may do this at once. In PostgreSQL, completed tasks that are to be
  /// kept for a day or more are dropped by whole days, if the user may call the function drop_days;
  /// a day with more than 100,000 tasks is counted by the server's estimate. Otherwise completed
  /// tasks are deleted one by one, in order of id: some that stand behind thousands of younger ones
  /// may be left for a later call.
  std::uint64_t remove_finished(const Removal& removal);

  /// What this queue has done since it was created.
  TaskStats stats() const;

  const RunnerId& runner() const noexcept;

  /// Where the tasks are, for messages. Never contains a password.
  std::string where() const;

 private:
  friend class Recovery;
  friend class QueueCore;
  std::shared_ptr<QueueCore> core_;
};

}  // namespace leasehold::inline v0
