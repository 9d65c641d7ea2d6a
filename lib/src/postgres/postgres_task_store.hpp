#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "postgres/claims.hpp"
#include "postgres/connection_pool.hpp"
#include "postgres/statement.hpp"
#include "support/combiner.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0 {

namespace postgres {

/// The statements of one schema.
struct Statements {
  explicit Statements(const std::string& schema);

  Statement enqueue, enqueue_unique, extend, progress, complete, complete_and_delete,
      lease_and_complete, lease_and_delete, fail, release, recover, get, list, update, cancel,
      retry, remove_finished, counts, health, oldest_snapshot, listen;
};

/// Tasks in PostgreSQL: one statement a call, or one for the small calls of several threads.
class PostgresTaskStore : public TaskStore {
 public:
  PostgresTaskStore(PostgresUri uri, const TaskQueueOptions& options);

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
  std::uint64_t retries() const override { return pool_.retries(); }
  std::string where() const override { return pool_.where(); }

  // The same in the caller's own transaction.
  std::vector<Enqueued> enqueue_in(pqxx::transaction_base& transaction,
                                   std::span<const NewTask> tasks);
  LeaseWrite complete_in(pqxx::transaction_base& transaction, const FinishedTask& task, Keep keep);

 private:
  struct LeaseCall {
    const LeaseRequest& request;
    std::vector<LeasedTask> tasks;
    std::exception_ptr error;
  };
  struct CompleteCall {
    std::span<const FinishedTask> tasks;
    Keep keep;
    std::vector<TaskId> accepted;
    bool beside_a_lease = false;  ///< then what somebody has locked was left out
  };
  using SmallCall = std::variant<LeaseCall, CompleteCall>;

  bool may_go_together(std::span<SmallCall* const> chosen, const SmallCall& next);
  const Statement& completion_statement(Keep keep) const;
  std::vector<TaskId> complete_alone(std::span<const FinishedTask> tasks, Keep keep);
  void complete_what_was_left_out(CompleteCall& call);
  static LeaseRequest sum_of(std::span<LeaseCall* const> calls);
  static std::vector<FinishedTask> tasks_of(std::span<CompleteCall* const> calls);
  static void share_out(std::vector<LeasedTask> tasks, std::span<LeaseCall* const> calls);
  static void share_out(std::vector<TaskId> accepted, std::span<CompleteCall* const> calls);
  void run(std::span<SmallCall* const> calls);
  const Statement& enqueue_statement(std::span<const NewTask> tasks) const;
  Params enqueue_params(std::span<const NewTask> tasks) const;

  const PostgresUri uri_;
  const TaskQueueOptions options_;
  ConnectionPool pool_;
  const Statements statements_;
  const std::optional<std::string> channel_;  // to notify of new tasks
  Claims claims_;
  Combiner<SmallCall> small_calls_;
};

}  // namespace postgres

std::unique_ptr<TaskStore> open_postgres_task_store(std::string_view uri,
                                                    const TaskQueueOptions& options);

}  // namespace leasehold::inline v0
