#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "postgres/connection_pool.hpp"
#include "postgres/leasing.hpp"
#include "postgres/statements.hpp"
#include "support/combiner.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {

/// Leases and completes tasks. If several threads do so for a few tasks each, their calls of one
/// kind are combined into one statement: a statement, and the commit that it waits for, cost more
/// than a task. Thread-safe.
class SmallCalls {
 public:
  SmallCalls(ConnectionPool& pool, Leasing& leasing, const Statements& statements,
             const PostgresOptions& options);

  std::vector<LeasedTask> lease(const LeaseRequest& request, LeaseId lease, std::size_t starts);
  std::vector<TaskId> complete(std::span<const FinishedTask> tasks, Keep keep);

 private:
  struct LeaseCall {
    const LeaseRequest& request;
    LeaseId lease;
    std::size_t starts;
    std::vector<LeasedTask> tasks{};
  };
  struct CompleteCall {
    std::span<const FinishedTask> tasks;
    Keep keep;
    std::vector<TaskId> accepted{};
    bool alone = false;  ///< the statement for all was refused: make one for this call
  };

  static bool may_lease_together(std::span<LeaseCall* const> chosen, const LeaseCall& next);
  static bool may_complete_together(std::span<CompleteCall* const> chosen,
                                    const CompleteCall& next);
  void lease_together(std::span<LeaseCall* const> calls);
  void complete_together(std::span<CompleteCall* const> calls);
  std::vector<TaskId> complete_now(std::span<const FinishedTask> tasks, Keep keep,
                                   std::chrono::milliseconds patience);

  ConnectionPool& pool_;
  Leasing& leasing_;
  const Statements& statements_;
  const std::chrono::milliseconds patience_;  // with a row that somebody has locked
  Combiner<LeaseCall> leases_;
  Combiner<CompleteCall> completions_;
};

/// The parameters of the statement that completes tasks. `patience`: how long to wait for a row
/// that somebody has locked; none to leave that to the transaction of a caller.
Params completion_params(std::span<const FinishedTask> tasks, Keep keep,
                         std::optional<std::chrono::milliseconds> patience);

}  // namespace leasehold::inline v0::postgres
