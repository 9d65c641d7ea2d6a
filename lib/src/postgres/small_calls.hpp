#pragma once

#include <exception>
#include <span>
#include <variant>
#include <vector>

#include "postgres/connection_pool.hpp"
#include "postgres/leasing.hpp"
#include "postgres/statements.hpp"
#include "support/combiner.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {

/// Leases and completes tasks. If several threads do so for a few tasks each, their calls are
/// combined into one statement: a statement, and the commit that it waits for, cost more than a
/// task. Thread-safe.
class SmallCalls {
 public:
  SmallCalls(ConnectionPool& pool, Leasing& leasing, const Statements& statements,
             std::size_t connections);

  std::vector<LeasedTask> lease(const LeaseRequest& request);
  std::vector<TaskId> complete(std::span<const FinishedTask> tasks, Keep keep);

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
    bool shared_statement = false;  ///< then rows that others had locked were left out
  };
  using Call = std::variant<LeaseCall, CompleteCall>;

  bool may_go_together(std::span<Call* const> chosen, const Call& next);
  void run(std::span<Call* const> calls);
  std::vector<TaskId> complete_alone(std::span<const FinishedTask> tasks, Keep keep);
  void complete_what_was_left_out(CompleteCall& call);

  template <typename Kind>
  static std::vector<Kind*> only(std::span<Call* const> calls);
  static LeaseRequest sum_of(std::span<LeaseCall* const> calls);
  static std::vector<FinishedTask> tasks_of(std::span<CompleteCall* const> calls);
  static void share_out(std::vector<LeasedTask> tasks, std::span<LeaseCall* const> calls);
  static void share_out(std::vector<TaskId> accepted, std::span<CompleteCall* const> calls);

  ConnectionPool& pool_;
  Leasing& leasing_;
  const Statements& statements_;
  Combiner<Call> calls_;
};

/// The statement that completes tasks by itself, and its parameters.
const Statement& completion_statement(const Statements& statements, Keep keep);
Params completion_params(std::span<const FinishedTask> tasks, Keep keep);

}  // namespace leasehold::inline v0::postgres
