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
#include "leasehold/queue_health.hpp"
#include "leasehold/runner_id.hpp"
#include "leasehold/task.hpp"
#include "leasehold/task_lease.hpp"
#include "leasehold/task_stats.hpp"

namespace spdlog {
class logger;
}

namespace leasehold::inline v0 {

class QueueCore;  // internal

struct PostgresOptions {
  /// Connections at most; they are made when needed and shared by all threads. A call that finds
  /// all in use waits for one. Default 4.
  std::size_t connections = 4;

  /// How long to wait for a connection to be made. Counted in whole seconds, at least 2. Default 5
  /// s.
  std::chrono::milliseconds connect_timeout{5'000};

  /// How long to wait for an answer before the connection is closed and the outcome declared
  /// unknown, and how long to wait for a free connection. Default 30 s.
  std::chrono::milliseconds command_timeout{30'000};

  /// The schema of the tables: a letter or _, then letters, digits or _, at most 63. Default
  /// leasehold.
  std::string schema = "leasehold";
};

struct SqliteOptions {
  /// How long a call tries while other processes write to the file, 1 ms to 1 h; then it throws
  /// Unavailable. Default 30 s.
  std::chrono::milliseconds timeout{30'000};
};

/// What becomes of completed tasks.
class Retention {
 public:
  /// The cheapest. Nothing can be looked up afterwards, results are not kept.
  static Retention delete_at_once() { return Retention{Kind::none, {}}; }
  /// Kept until a remove_finished() (the daemon calls it) finds them this old.
  static Retention keep_for(std::chrono::milliseconds time) { return Retention{Kind::time, time}; }
  static Retention keep_forever() { return Retention{Kind::ever, {}}; }

  bool deletes_at_once() const noexcept { return kind_ == Kind::none; }
  /// Nothing if they are kept for ever.
  std::optional<std::chrono::milliseconds> time() const noexcept {
    return kind_ == Kind::ever ? std::nullopt : std::optional{time_};
  }

 private:
  enum class Kind { none, time, ever };
  Retention(Kind kind, std::chrono::milliseconds time) : kind_(kind), time_(time) {}

  Kind kind_;
  std::chrono::milliseconds time_;
};

/// Whether enqueue() tells waiting workers, by one NOTIFY a call on the channel named like the
/// schema. Commits that notify stand in line for a lock of the whole server, which is noticeable
/// from some thousand single enqueues a second on.
enum class Notify {
  on,
  off,  ///< workers find new tasks when they look by themselves
};

struct TaskQueueOptions {
  PostgresOptions postgres;  ///< for postgresql://…
  SqliteOptions sqlite;      ///< for sqlite:…

  /// Who leases, if a LeaseRequest does not say. Default: RunnerId::of_this_process().
  std::optional<RunnerId> runner;

  /// Default: kept for a day.
  Retention retention = Retention::keep_for(std::chrono::hours{24});

  /// For Retry::by_policy().
  TaskBackoff backoff;

  /// Bytes of a payload, progress or result at most. A large one is written again with every change
  /// of its task's state: keep big things elsewhere and their names here. At most 64 MiB. Default 1
  /// MiB.
  std::size_t largest_payload = 1024 * 1024;

  /// Default on.
  Notify notify = Notify::on;

  /// Where to log. Default: warnings and errors to stderr, nothing below.
  std::shared_ptr<spdlog::logger> logger;
};

/// What became of a NewTask.
struct Enqueued {
  enum class Outcome {
    added,
    exists,  ///< a living task has the same unique key; `id` is that one's
  };
  TaskId id;
  Outcome outcome = Outcome::added;
};

struct LeaseRequest {
  /// Which types, 1 to 1,000 of them. Each gets its fair share of the limit; what one does not use
  /// goes to the others.
  std::vector<std::string> types;

  /// 1 to 10,000 tasks in all. Default 1.
  std::size_t limit = 1;

  /// How long a crash of this worker delays its tasks. 100 ms to 24 h. Default 30 s.
  std::chrono::milliseconds duration{30'000};

  /// Who leases: 1 to 256 bytes of UTF-8 without control characters. Default: the queue's runner.
  std::string worker;
};

/// A lease that is to be completed with a result.
struct Completion {
  TaskLease* lease = nullptr;
  std::string result;  ///< JSON, or empty for none
};

/// What update() changes; what is not given stays.
struct TaskChanges {
  std::optional<std::string> payload;
  std::optional<int> priority;
  std::optional<std::chrono::system_clock::time_point> run_at;
  std::optional<std::string> progress;
};

struct Update {
  enum class Outcome {
    updated,    ///< `version` is the new one
    conflict,   ///< the task is at another version; `version` is that one
    leased,     ///< a worker has it, and only its lease may write; `version` as expected
    not_found,  ///< there is no such task
  };
  Outcome outcome = Outcome::not_found;
  TaskVersion version;
};

enum class CancelOutcome {
  was_pending,  ///< cancelled; nobody had it
  was_leased,   ///< cancelled; its worker learns of it with its next write or renewal
  finished,     ///< it had ended before
  not_found,
};

enum class RetryOutcome {
  requeued,   ///< pending, with all its attempts again
  not_dead,   ///< it is neither dead nor cancelled
  key_taken,  ///< another living task has its unique key
  not_found,
};

LEASEHOLD_API const char* to_string(Enqueued::Outcome outcome) noexcept;
LEASEHOLD_API const char* to_string(Update::Outcome outcome) noexcept;
LEASEHOLD_API const char* to_string(CancelOutcome outcome) noexcept;
LEASEHOLD_API const char* to_string(RetryOutcome outcome) noexcept;

/// Which tasks to list. What is not given does not matter.
struct TaskFilter {
  std::optional<TaskState> state;
  std::optional<std::string> type;
  std::optional<std::string> worker;
  TaskId after{0};          ///< only tasks with larger ids: the last one of the page before
  std::size_t limit = 100;  ///< 1 to 10,000
};

/// How many tasks of a type are in a state.
struct TaskCount {
  std::string type;
  TaskState state = TaskState::pending;
  std::uint64_t number = 0;
  bool more = false;  ///< there are more than `number`, which is where counting stopped
};

struct Removal {
  /// How long tasks are kept after they ended, by state. Nothing means for ever. Defaults:
  /// completed ones as the queue's retention says, cancelled ones for a day, dead ones for ever.
  std::optional<std::chrono::milliseconds> completed;
  std::optional<std::chrono::milliseconds> cancelled;
  std::optional<std::chrono::milliseconds> dead;
  /// Deleted in one statement, 1 to 100,000: more is faster and holds locks longer. Default 1,000.
  std::size_t chunk = 1'000;
  /// Deleted in one call at most, rounded up to whole chunks. Nothing, the default, means all.
  std::optional<std::uint64_t> limit;
};

/// A queue of tasks in a PostgreSQL table, or in SQLite: in a file that several processes of one
/// machine share, or in memory. Run migrate() on a PostgreSQL database first; in SQLite the tables
/// are made when they are not there.
///
/// In SQLite one writes at a time, and every call is one transaction: "one statement" and "one
/// connection" below are that. Leases are judged by the clock that counts since the machine was
/// started, so that a time of day that jumps gives no task to two workers; run_at and retention are
/// judged by the time of day. See docs/tasks.md.
///
/// Thread safety: every member may be called from any thread. Leases may outlive their queue.
///
/// Every member may throw InvalidArgument, Unavailable (it did not happen: the server is away),
/// OutcomeUnknown (it may have happened: the connection was lost while waiting for the answer) and
/// ServerRefused. Deadlocks and serialization failures are retried a few times. A connection that
/// is lost comes back by itself with the next call; after a failed attempt calls fail at once with
/// Unavailable for a pause that grows from 50 ms to 2 s.
class LEASEHOLD_API TaskQueue {
 public:
  /// For example TaskQueue{"postgresql://localhost/app"}; libpq's key=value form does too. Connects
  /// with the first call.
  ///
  /// Or TaskQueue{"sqlite:tasks.db"}, a file; TaskQueue{"sqlite::memory:"}, this queue's own, gone
  /// with it; TaskQueue{"sqlite::memory:name"}, shared by all queues of this process that name it,
  /// gone with the last. Opened here: throws ServerRefused for a file that is not ours, read-only,
  /// or made by a newer Leasehold. Not to be used after fork().
  explicit TaskQueue(std::string_view uri, TaskQueueOptions options = {});

  TaskQueue(TaskQueue&&) noexcept;
  TaskQueue& operator=(TaskQueue&&) noexcept;
  ~TaskQueue();

  /// Adds a task. After OutcomeUnknown only a unique_key makes it safe to try again.
  /// To add one in a transaction of your own: enqueue_in() in leasehold/postgres.hpp or sqlite.hpp.
  Enqueued enqueue(const NewTask& task);

  /// Adds all of them or none, in one statement; answers in the same order. At most 100,000.
  std::vector<Enqueued> enqueue(std::span<const NewTask> tasks);

  /// Throws InvalidArgument if enqueue() would refuse this task, without asking the store.
  static void check(const NewTask& task, const TaskQueueOptions& options = {});

  /// Leases tasks that are due: by priority, then run_at, then id. Returns fewer than the limit,
  /// perhaps none, if there are no more. Costs one round trip, however many tasks there are; one
  /// more if some types have fewer than their share, and one more to look for what came back. If
  /// one of those fails, what was leased before it is returned.
  ///
  /// In a long queue, a task that comes back to an earlier place than what was just leased
  /// (recovered, released, or committed late) may be passed over for some 10 ms; while somebody
  /// keeps a transaction open for long, for up to 5 s. Never across priorities.
  std::vector<TaskLease> lease(const LeaseRequest& request);

  /// Renews all of them in one statement, but for those that were given to complete_in(). Returns
  /// those that are stale.
  std::vector<TaskId> extend(std::span<TaskLease> leases);

  /// Completes all of them in one statement. Returns those that were stale. After OutcomeUnknown
  /// all leases are as they were: calling it again looks up what the first call did.
  std::vector<TaskId> complete(std::span<TaskLease> leases);
  std::vector<TaskId> complete(std::span<const Completion> completions);

  /// Releases all of them in one statement. Returns those that were stale.
  std::vector<TaskId> release(std::span<TaskLease> leases);

  std::optional<TaskRecord> get(TaskId id);

  /// Changes a task if it still has the version that get() told: of two that try, one wins. A
  /// leased task is its worker's alone.
  Update update(TaskId id, TaskVersion expected, const TaskChanges& changes);

  CancelOutcome cancel(TaskId id);

  /// Gives a dead or cancelled task all its attempts again.
  RetryOutcome retry(TaskId id);

  /// A page of tasks in order of id. The next one begins after the last of this one.
  std::vector<TaskRecord> list(const TaskFilter& filter = {});

  /// How many tasks there are by type and state, sorted; states without tasks are left out. Exact
  /// up to `at_most` of each type and state and cut off there (TaskCount::more), so that the cost
  /// is bounded by that and not by the depth of the table: about 10 ms for 100,000 counted. Leased
  /// tasks are always counted exactly.
  std::vector<TaskCount> counts(std::uint64_t at_most = 10'000);

  /// How the queue fares. Costs one look-up in an index for each type and priority in use and one
  /// pass over the leased tasks, however many others there are.
  QueueHealth health();

  /// Deletes tasks that ended long enough ago, chunk by chunk until none is left. Returns how many.
  /// Safe to run from several processes at once.
  std::uint64_t remove_finished();
  std::uint64_t remove_finished(const Removal& removal);

  /// What this queue did since it was made.
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
