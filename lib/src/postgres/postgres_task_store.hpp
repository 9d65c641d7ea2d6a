#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "postgres/connection_pool.hpp"
#include "postgres/leasing.hpp"
#include "postgres/small_calls.hpp"
#include "postgres/statements.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {

/// Tasks in PostgreSQL. Its members are in files that are named like those of sql/queries.
class PostgresTaskStore : public TaskStore {
 public:
  PostgresTaskStore(PostgresUri uri, const TaskQueueOptions& options);

  // enqueue.cpp
  std::vector<Enqueued> enqueue(std::span<const NewTask> tasks) override;
  std::vector<Enqueued> enqueue_in(const CallersTransaction& transaction,
                                   std::span<const NewTask> tasks) override;

  std::vector<LeasedTask> lease(const LeaseRequest& request, std::size_t starts) override {
    return small_calls_.lease(request, starts);
  }
  void give_back_lost() override { leasing_.give_back_lost(Leasing::When::now); }

  // lease_writes.cpp
  Renewed extend(std::span<const Renewable> leases, std::chrono::milliseconds duration) override;
  std::vector<LeaseName> complete(std::span<const FinishedTask> tasks, Keep keep) override {
    return small_calls_.complete(tasks, keep);
  }
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

  void check_callers(const CallersTransaction& transaction) const override;
  void transact(const std::function<void(sqlite3*)>& work) override;
  std::unique_ptr<TaskStore> twin(std::chrono::milliseconds patience) const override;
  std::unique_ptr<TaskListener> listen() const override;
  std::uint64_t retries() const override { return pool_.retries(); }
  std::string where() const override { return pool_.where(); }

 private:
  const Statement& enqueue_statement(std::span<const NewTask> tasks) const;
  Params enqueue_params(std::span<const NewTask> tasks) const;
  std::uint64_t remove_completed(std::chrono::milliseconds age, std::size_t chunk);
  std::uint64_t remove_completed(std::chrono::milliseconds age, std::size_t chunk, std::size_t most,
                                 TaskId& after);

  const PostgresUri uri_;
  const TaskQueueOptions options_;
  ConnectionPool pool_;
  const Statements statements_;
  const std::chrono::milliseconds patience_;  // with a row that somebody has locked
  const std::optional<std::string> channel_;  // to notify of new tasks
  Leasing leasing_;
  SmallCalls small_calls_;

  ThreadMutex removal_;
  TaskId next_to_remove_ LEASEHOLD_GUARDED_BY(removal_);
};

/// Connects with the first call. Throws InvalidArgument if the URI or the options are wrong.
std::unique_ptr<TaskStore> open_task_store(std::string_view uri, const TaskQueueOptions& options);

}  // namespace leasehold::inline v0::postgres
