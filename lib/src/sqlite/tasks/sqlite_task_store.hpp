#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/migrate.hpp"
#include "sqlite/database/database.hpp"
#include "tasks/task_store.hpp"
#include "tasks/turns.hpp"

namespace leasehold::inline v0 {

namespace sqlite {

/// What the tables of tasks need of a database.
OpenOptions open_options(const TaskQueueOptions& options);

/// Tasks in a SQLite database: one immediate transaction a call. Leases are judged by the machine's
/// clock, run_at and retention by its time of day.
class SqliteTaskStore : public TaskStore {
 public:
  SqliteTaskStore(std::shared_ptr<Database> database, const TaskQueueOptions& options);

  std::vector<Enqueued> enqueue(std::span<const NewTask> tasks) override;
  std::vector<LeasedTask> lease(const LeaseRequest& request) override;
  std::vector<TaskId> extend(std::span<const LeaseKey> keys,
                             std::chrono::milliseconds duration) override;
  std::vector<TaskId> complete(std::span<const FinishedTask> tasks, Keep keep) override;
  std::vector<TaskId> release(std::span<const LeaseKey> keys,
                              std::optional<std::chrono::milliseconds> delay) override;
  LeaseWrite progress(const LeaseKey& key, std::string_view json) override;
  FailOutcome fail(const LeaseKey& key, const Failure& failure) override;
  std::optional<TaskRecord> get(TaskId id) override;
  std::vector<TaskRecord> list(const TaskFilter& filter) override;
  std::vector<TaskCount> counts(std::uint64_t at_most) override;
  QueueHealth health() override;
  Update update(TaskId id, TaskVersion expected, const TaskChanges& changes) override;
  CancelOutcome cancel(TaskId id) override;
  RetryOutcome retry(TaskId id) override;
  std::vector<RecoveredTask> recover(TaskId after, const RecoveryOptions& options) override;
  std::uint64_t remove_finished(TaskState state, std::chrono::milliseconds age,
                                std::size_t chunk) override;
  std::unique_ptr<TaskStore> twin(std::chrono::milliseconds patience) const override;
  std::unique_ptr<TaskListener> listen() const override;
  std::uint64_t retries() const override { return database_->busy_retries(); }
  std::string where() const override { return database_->where(); }

  /// Runs `work` in one transaction on the connection of this store, which it must not call.
  void transact(const std::function<void(sqlite3*)>& work);

  // The same in the caller's own transaction: one on the same file, or inside transact().
  /// Throws InvalidArgument if it is neither.
  void check_callers(sqlite3* connection) const;
  std::vector<Enqueued> enqueue_in(sqlite3* connection, std::span<const NewTask> tasks);
  LeaseWrite complete_in(sqlite3* connection, const FinishedTask& task, Keep keep);

 private:
  template <class Fn>
  auto write(Fn&& fn);
  template <class Fn>
  auto read(Fn&& fn);
  void tell_workers() const;

  const std::shared_ptr<Database> database_;
  const TaskQueueOptions options_;
  Turns turns_;
  std::atomic<bool> found_nothing_{false};  // the last time
};

}  // namespace sqlite

/// Opens or makes the database and its tables. Nothing if `uri` does not begin with sqlite:.
std::unique_ptr<TaskStore> open_sqlite_task_store(std::string_view uri,
                                                  const TaskQueueOptions& options);

/// migrate() for such a URI.
std::optional<MigrateReport> migrate_sqlite(std::string_view uri);

}  // namespace leasehold::inline v0
