#pragma once

#include <chrono>
#include <optional>
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
             const PostgresOptions& options);

  std::vector<LeasedTask> lease(const LeaseRequest& request, std::size_t starts);
  std::vector<LeaseName> complete(std::span<const FinishedTask> tasks, Keep keep);

 private:
  struct LeaseCall {
    const LeaseRequest& request;
    std::size_t starts;
    std::vector<LeasedTask> tasks{};
    bool alone = false;  ///< make a statement for this call only
  };
  struct CompleteCall {
    std::span<const FinishedTask> tasks;
    Keep keep;
    std::vector<LeaseName> accepted{};
    bool alone = false;
  };
  using Call = std::variant<LeaseCall, CompleteCall>;
  using Leases = std::vector<LeaseCall*>;
  using Completions = std::vector<CompleteCall*>;

  bool may_join(std::span<Call* const> chosen, const Call& next);
  bool may_lease_together(const Leases& chosen, const LeaseCall& next) const;
  static bool may_complete_together(const Completions& chosen, const CompleteCall& next);
  void run(std::span<Call* const> calls);
  void lease_together(const Leases& calls, Leasing::Companion* companion);
  void complete_together(const Completions& calls);
  void do_both(const Leases& leases, const Completions& completions);
  std::vector<LeaseName> complete_now(std::span<const FinishedTask> tasks, Keep keep,
                                      std::chrono::milliseconds patience);

  ConnectionPool& pool_;
  Leasing& leasing_;
  const Statements& statements_;
  const std::chrono::milliseconds patience_;  // with a row that somebody has locked
  const bool may_do_both_;                    // in one commit
  Combiner<Call> calls_;
};

/// The parameters of the statement that completes tasks. `patience`: how long to wait for a row
/// that somebody has locked; none to leave that to the transaction of a caller.
Params completion_params(std::span<const FinishedTask> tasks, Keep keep,
                         std::optional<std::chrono::milliseconds> patience);

}  // namespace leasehold::inline v0::postgres
