#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "leasehold/recovery.hpp"
#include "leasehold/task_queue.hpp"
#include "leasehold/task_record.hpp"

namespace pqxx {
class transaction_base;
}
struct sqlite3;

namespace leasehold::inline v0 {

/// Identifies a lease. Every write of its holder names it.
struct LeaseKey {
  TaskId id;
  TaskVersion version;
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
};

struct FinishedTask {
  LeaseKey key;
  std::string_view result;  ///< empty for none
};

/// Whether completed tasks stay in the store.
enum class Keep { yes, no };

struct Failure {
  std::string_view error;
  std::optional<std::chrono::milliseconds> retry_after;  ///< none: the task is dead at once
};

/// A transaction of the application, which writes of the store can join.
using CallersTransaction = std::variant<pqxx::transaction_base*, sqlite3*>;

/// Reports that tasks were added. For one thread.
class TaskListener {
 public:
  virtual ~TaskListener() = default;
  /// Waits until tasks were added or `stop` is requested. The first call returns as soon as the
  /// listener works. Throws Unavailable once it no longer does.
  virtual void wait(const std::stop_token& stop) = 0;
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

  /// Gives each type its fair share. The tasks are ordered by priority, then run_at, then id.
  virtual std::vector<LeasedTask> lease(const LeaseRequest& request) = 0;

  // Writes of a lease's holder. They leave tasks with another version alone, and return the tasks
  // whose write was accepted. Keys are in order of id.
  virtual std::vector<TaskId> extend(std::span<const LeaseKey> keys,
                                     std::chrono::milliseconds duration) = 0;
  virtual std::vector<TaskId> complete(std::span<const FinishedTask> tasks, Keep keep) = 0;
  /// `delay`: none to keep the task's place in the queue.
  virtual std::vector<TaskId> release(std::span<const LeaseKey> keys,
                                      std::optional<std::chrono::milliseconds> delay) = 0;
  virtual LeaseWrite progress(const LeaseKey& key, std::string_view json) = 0;
  virtual FailOutcome fail(const LeaseKey& key, const Failure& failure) = 0;

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

  virtual std::optional<TaskRecord> get(TaskId id) = 0;
  virtual std::vector<TaskRecord> list(const TaskFilter& filter) = 0;
  virtual std::vector<TaskCount> counts(std::uint64_t at_most) = 0;
  virtual QueueHealth health() = 0;
  virtual Update update(TaskId id, TaskVersion expected, const TaskChanges& changes) = 0;
  virtual CancelOutcome cancel(TaskId id) = 0;
  virtual RetryOutcome retry(TaskId id) = 0;

  /// Takes back one batch of expired leases of tasks with ids above `after`, in order of id.
  virtual std::vector<RecoveredTask> recover(TaskId after, const RecoveryOptions& options) = 0;

  /// Deletes one chunk of the tasks that ended in this state at least `age` ago. Returns how many.
  virtual std::uint64_t remove_finished(TaskState state, std::chrono::milliseconds age,
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
