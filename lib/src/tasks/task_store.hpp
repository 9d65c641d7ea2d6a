#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "leasehold/errors.hpp"
#include "leasehold/recovery.hpp"
#include "leasehold/task_queue.hpp"
#include "leasehold/task_record.hpp"

namespace pqxx {
class transaction_base;
}
struct sqlite3;

namespace leasehold::inline v0 {

/// A write has been executed, but the wait for synchronous standbys was cut short, so that a
/// failover may still lose it. Repeating it would find it done, which says nothing about the
/// standbys.
class Unconfirmed : public OutcomeUnknown {
 public:
  using OutcomeUnknown::OutcomeUnknown;
};

/// Names one statement that leases tasks: a random number that the client chose. The store keeps it
/// with each task that was leased by it. If a failover loses commits, the same
/// version of a task can be leased twice, but never with the same number.
struct LeaseId {
  std::int64_t value = 0;

  friend auto operator<=>(const LeaseId&, const LeaseId&) = default;
};

/// Tells a lease from every other one, also of the same task. Stores answer with it.
struct LeaseName {
  TaskId id;
  LeaseId lease;

  friend auto operator<=>(const LeaseName&, const LeaseName&) = default;
};

/// What every write of a lease's holder names.
struct LeaseKey {
  TaskId id;
  TaskVersion version;
  LeaseId lease;

  LeaseName name() const { return {id, lease}; }
};

/// A task as the store leases it to a worker.
struct LeasedTask {
  LeaseKey key;
  std::string type;
  int priority = 0;
  std::string payload;
  std::string progress;  ///< empty for none
  int attempts = 0;      ///< including this one
  int max_attempts = 0;
  int crash_count = 0;
  std::int64_t run_at_us = 0;  ///< since 1970, by the store's clock

  /// Whether it counts as a crash if the lease expires.
  bool started = true;
  /// A lease of the task has expired, and no attempt has ended in order since then.
  bool suspect = false;
};

/// A task as the store keeps it.
struct StoredTask {
  TaskRecord record;
  LeaseId lease;  ///< of its last lease, even after that has ended; 0 if there was none
};

/// A lease to be renewed.
struct Renewable {
  LeaseKey key;
  bool started = true;  ///< its handler has been called
};

struct Renewed {
  std::vector<LeaseName> renewed;
  /// The lease is still ours but was not renewed, because somebody has locked the row.
  std::vector<LeaseName> locked;
};

struct FinishedTask {
  LeaseKey key;
  std::string_view result;  ///< empty for none
};

/// Whether completed tasks stay in the store.
enum class Keep { yes, no };

struct FailedTask {
  LeaseKey key;
  std::string_view error;
  std::optional<std::chrono::milliseconds> retry_after;  ///< none: the task is dead at once
};

/// When a task is given back.
enum class GivenBack {
  unstarted,  ///< before its handler was called
  in_order,   ///< by its handler, or by a worker that stops: the count of crashes begins anew
};

/// What a process does for all that use the queue.
struct Upkeep {
  std::vector<RecoveredTask> recovered;
  std::size_t fleet = 1;  ///< processes that have looked for tasks lately, as far as known
};

/// Where among the expired leases a search was. Leases are taken back in this order.
struct ExpiredLease {
  std::int64_t leased_at_us = 0;  ///< when it began; unused by stores that go by the id alone
  TaskId id;

  friend auto operator<=>(const ExpiredLease&, const ExpiredLease&) = default;
};

struct Recovered {
  std::vector<RecoveredTask> tasks;  ///< in order of id
  ExpiredLease last;                 ///< of these, in the order in which they were taken back
};

struct Removed {
  std::uint64_t tasks = 0;
  bool more = false;  ///< there may be more to remove
};

/// Tasks that were added.
struct News {
  /// By type, the most that were added at once. Empty: any number of any type.
  std::map<std::string, std::size_t, std::less<>> added;
};

/// A transaction of the application, which writes of the store can join.
using CallersTransaction = std::variant<pqxx::transaction_base*, sqlite3*>;

/// Reports that tasks were added. For one thread.
class TaskListener {
 public:
  virtual ~TaskListener() = default;
  /// Waits until tasks were added or `stop` is requested. The first call returns as soon as the
  /// listener works. Throws Unavailable once it no longer does.
  virtual News wait(const std::stop_token& stop) = 0;
  /// Hears nothing for a while, because each worker that hears of a task costs the store something.
  /// Returns at once if it costs nothing. Throws what wait() throws.
  virtual void rest(std::chrono::milliseconds time, const std::stop_token& stop) = 0;
};

/// Where tasks are kept. Thread-safe. Arguments have been checked, and types occur once.
///
/// Every call may throw Unavailable (nothing happened), OutcomeUnknown (it may have happened) or
/// ServerRefused (nothing happened). Each call is one transaction. Only the store's clock judges
/// time.
class TaskStore {
 public:
  virtual ~TaskStore() = default;

  /// No unique key occurs twice. The answers are in the order of the tasks.
  virtual std::vector<Enqueued> enqueue(std::span<const NewTask> tasks) = 0;

  /// Gives each type its fair share. The tasks are ordered by priority, then run_at, then id. At
  /// most `starts` of them, and all suspects, are leased as started; no more suspects than `starts`
  /// are leased, except for a single one. If the reply is lost, the store gives the tasks back as
  /// soon as it can.
  virtual std::vector<LeasedTask> lease(const LeaseRequest& request, std::size_t starts) = 0;

  /// Gives back now what was leased by calls whose reply was lost. For those who will not call
  /// lease() again.
  virtual void give_back_lost() = 0;

  // Writes of a lease's holder. They leave tasks that are not leased by this key alone, and return
  // the leases whose write was accepted. Keys are in order of id, and may name several leases of a
  // task. If somebody keeps a row locked, they are refused as a whole (conflict), before the
  // time-out of a call: the store is not away.
  /// Hardly waits for a row that somebody has locked, and renews the others.
  virtual Renewed extend(std::span<const Renewable> leases, std::chrono::milliseconds duration) = 0;
  virtual std::vector<LeaseName> complete(std::span<const FinishedTask> tasks, Keep keep) = 0;
  /// `delay`: none to keep the task's place in the queue.
  virtual std::vector<LeaseName> release(std::span<const LeaseKey> keys,
                                         std::optional<std::chrono::milliseconds> delay,
                                         GivenBack when) = 0;
  virtual LeaseWrite progress(const LeaseKey& key, std::string_view json) = 0;
  /// The outcomes are in the order of the tasks.
  virtual std::vector<FailOutcome> fail(std::span<const FailedTask> tasks) = 0;

  // The same in a transaction of the caller, which has been checked.
  /// Throws InvalidArgument unless it is an open transaction in this very database.
  virtual void check_callers(const CallersTransaction& transaction) const = 0;
  virtual std::vector<Enqueued> enqueue_in(const CallersTransaction& transaction,
                                           std::span<const NewTask> tasks) = 0;
  virtual LeaseWrite complete_in(const CallersTransaction& transaction, const FinishedTask& task,
                                 Keep keep) = 0;
  /// Runs `work` in one transaction on a connection of the store. Only SQLite can do it; other
  /// stores throw InvalidArgument.
  virtual void transact(const std::function<void(sqlite3*)>& work) = 0;

  virtual std::optional<StoredTask> get(TaskId id) = 0;
  virtual std::vector<TaskRecord> list(const TaskFilter& filter) = 0;
  virtual std::vector<TaskCount> counts(std::uint64_t at_most) = 0;
  virtual QueueHealth health() = 0;
  virtual Update update(TaskId id, TaskVersion expected, const TaskChanges& changes) = 0;
  virtual CancelOutcome cancel(TaskId id) = 0;
  virtual RetryOutcome retry(TaskId id) = 0;

  /// Takes back one batch of expired leases, of those after `after`.
  virtual Recovered recover(const ExpiredLease& after, const RecoveryOptions& options) = 0;

  /// Upkeep for all that use the queue. Each process that looks for tasks calls it, about once a
  /// second or less often in a large fleet, and thereby says that it is there. One of them does the
  /// work, if nobody did it within the last second: it takes back one batch of expired leases and
  /// makes room for the finished tasks of the coming days. `process` names the caller. Without
  /// options it recovers nothing.
  virtual Upkeep look_after(std::string_view process,
                            const std::optional<RecoveryOptions>& options) = 0;

  /// Deletes one chunk of the tasks that ended in this state at least `age` ago.
  virtual Removed remove_finished(TaskState state, std::chrono::milliseconds age,
                                  std::size_t chunk) = 0;

  /// A second route to the same tasks. Its callers never queue behind others, and wait at most
  /// `patience` for an answer.
  virtual std::unique_ptr<TaskStore> twin(std::chrono::milliseconds patience) const = 0;

  /// Null if this store cannot report new tasks.
  virtual std::unique_ptr<TaskListener> listen() const = 0;

  /// How often a call was repeated because others were in the way.
  virtual std::uint64_t retries() const = 0;

  /// Where the tasks are, for messages.
  virtual std::string where() const = 0;
};

/// The state with this name. The other direction is to_string().
TaskState to_state(std::string_view name);

}  // namespace leasehold::inline v0
