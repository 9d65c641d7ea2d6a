#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/recovery.hpp"
#include "leasehold/task.hpp"
#include "leasehold/task_queue.hpp"

namespace leasehold::inline v0 {

/// What a write that only the holder of a lease may make has to name.
struct LeaseKey {
  TaskId id;
  TaskVersion version;
};

/// A task as its worker gets it.
struct LeasedTask {
  LeaseKey key;
  std::string type;
  int priority = 0;
  std::string payload;
  std::string progress;  ///< empty for none
  int attempts = 0;      ///< this one counted
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
  std::optional<std::chrono::milliseconds> retry_after;  ///< none: dead at once
};

/// Hears when tasks are added. For one thread.
class TaskListener {
 public:
  virtual ~TaskListener() = default;
  /// Waits until tasks were added, or until stopped. The first call returns as soon as it hears.
  /// Throws Unavailable if it can not hear any more.
  virtual void wait(const std::stop_token& stop) = 0;
};

/// Where tasks are kept. Thread-safe. Arguments have been checked, names of types are not repeated.
///
/// Every call may throw Unavailable (nothing happened), OutcomeUnknown (it may have) or
/// ServerRefused (nothing happened). Each is one transaction. Only the store's clock judges time.
class TaskStore {
 public:
  virtual ~TaskStore() = default;

  /// No unique key occurs twice. Answers in the same order.
  virtual std::vector<Enqueued> enqueue(std::span<const NewTask> tasks) = 0;

  /// Each type gets its fair share; by priority, then run_at, then id.
  virtual std::vector<LeasedTask> lease(const LeaseRequest& request) = 0;

  // Writes of a lease's holder. They change nothing where the version is another one, and return
  // those that were accepted. Keys are in order of id.
  virtual std::vector<TaskId> extend(std::span<const LeaseKey> keys,
                                     std::chrono::milliseconds duration) = 0;
  virtual std::vector<TaskId> complete(std::span<const FinishedTask> tasks, Keep keep) = 0;
  /// `delay`: none to keep the task's place.
  virtual std::vector<TaskId> release(std::span<const LeaseKey> keys,
                                      std::optional<std::chrono::milliseconds> delay) = 0;
  virtual LeaseWrite progress(const LeaseKey& key, std::string_view json) = 0;
  virtual FailOutcome fail(const LeaseKey& key, const Failure& failure) = 0;

  virtual std::optional<TaskRecord> get(TaskId id) = 0;
  virtual std::vector<TaskRecord> list(const TaskFilter& filter) = 0;
  virtual std::vector<TaskCount> counts(std::uint64_t at_most) = 0;
  virtual QueueHealth health() = 0;
  virtual Update update(TaskId id, TaskVersion expected, const TaskChanges& changes) = 0;
  virtual CancelOutcome cancel(TaskId id) = 0;
  virtual RetryOutcome retry(TaskId id) = 0;

  /// One batch of expired leases with ids above `after`, in order of id.
  virtual std::vector<RecoveredTask> recover(TaskId after, const RecoveryOptions& options) = 0;

  /// Deletes one chunk of what ended in this state at least `age` ago. Returns how many.
  virtual std::uint64_t remove_finished(TaskState state, std::chrono::milliseconds age,
                                        std::size_t chunk) = 0;

  /// The same tasks by a way of its own: who uses it never waits behind others, and no longer than
  /// `patience` for an answer.
  virtual std::unique_ptr<TaskStore> twin(std::chrono::milliseconds patience) const = 0;

  /// Null if this store does not tell.
  virtual std::unique_ptr<TaskListener> listen() const = 0;

  /// How often a call was made again because others were in the way.
  virtual std::uint64_t retries() const = 0;

  /// Where the tasks are, for messages.
  virtual std::string where() const = 0;
};

}  // namespace leasehold::inline v0
