#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sqlite/database/database.hpp"
#include "support/turns.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::sqlite {

/// What the tables of tasks need of a database.
OpenOptions open_options(const TaskQueueOptions& options);

/// Tasks in a SQLite database: each call is one immediate transaction. Leases are judged by the
/// time since the machine was started, run_at and retention by its time of day. The members are in
/// files that are named like those of sql/sqlite/tasks.
class SqliteTaskStore : public TaskStore {
 public:
  SqliteTaskStore(std::shared_ptr<Database> database, TaskQueueOptions options);

  // enqueue.cpp
  std::vector<Enqueued> enqueue(std::span<const NewTask> tasks) override;
  std::vector<Enqueued> enqueue_in(const CallersTransaction& transaction,
                                   std::span<const NewTask> tasks) override;

  // leasing.cpp
  std::vector<LeasedTask> lease(const LeaseRequest& request, std::size_t starts) override;
  void give_back_lost() override {}  // no reply is ever lost

  // lease_writes.cpp
  Renewed extend(std::span<const Renewable> leases, std::chrono::milliseconds duration) override;
  std::vector<LeaseName> complete(std::span<const FinishedTask> tasks, Keep keep) override;
  LeaseWrite complete_in(const CallersTransaction& transaction, const FinishedTask& task,
                         Keep keep) override;
  std::vector<LeaseName> release(std::span<const LeaseKey> keys,
                                 std::optional<std::chrono::milliseconds> delay,
                                 GivenBack when) override;
  LeaseWrite progress(const LeaseKey& key, std::string_view json) override;
  std::vector<FailOutcome> fail(std::span<const FailedTask> tasks) override;

  // recover.cpp
  Recovered recover(const ExpiredLease& after, const RecoveryOptions& options) override;
  Upkeep look_after(std::string_view process,
                    const std::optional<RecoveryOptions>& options) override;

  // inspect.cpp
  std::optional<StoredTask> get(TaskId id) override;
  std::vector<TaskRecord> list(const TaskFilter& filter) override;
  std::vector<TaskCount> counts(std::uint64_t at_most) override;
  QueueHealth health() override;

  // manage.cpp
  Update update(TaskId id, TaskVersion expected, const TaskChanges& changes) override;
  CancelOutcome cancel(TaskId id) override;
  RetryOutcome retry(TaskId id) override;
  Removed remove_finished(TaskState state, std::chrono::milliseconds age,
                          std::size_t chunk) override;

  /// Accepts a transaction in the same file, or the one inside of transact().
  void check_callers(const CallersTransaction& transaction) const override;
  void transact(const std::function<void(sqlite3*)>& work) override;
  std::unique_ptr<TaskStore> twin(std::chrono::milliseconds patience) const override;
  std::unique_ptr<TaskListener> listen() const override;
  std::uint64_t retries() const override { return database_->busy_retries(); }
  std::string where() const override { return database_->where(); }

 private:
  void notify_workers() const;

  const std::shared_ptr<Database> database_;
  const TaskQueueOptions options_;
  Turns turns_;
  std::atomic<bool> found_nothing_{false};  // by the last lease
};

/// Opens the database and creates its tables if necessary. Null if `uri` does not begin with
/// sqlite:.
std::unique_ptr<TaskStore> open_task_store(std::string_view uri, const TaskQueueOptions& options);

}  // namespace leasehold::inline v0::sqlite
