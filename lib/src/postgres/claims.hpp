#pragma once

#include <exception>
#include <span>
#include <string>
#include <vector>

#include "postgres/claim_floors.hpp"
#include "postgres/connection_pool.hpp"
#include "tasks/task_store.hpp"
#include "tasks/turns.hpp"

namespace leasehold::inline v0::postgres {

/// Leases tasks: gives each type its fair share, and begins where there is something to be found.
/// Thread-safe.
class Claims {
 public:
  Claims(ConnectionPool& pool, const std::string& schema);

  /// Completions that are made in the same statement.
  struct Companion {
    const Statement& statement;    ///< lease_and_complete or lease_and_delete
    Params params;                 ///< of the completions
    std::vector<TaskId> accepted;  ///< the answer
    std::exception_ptr error;      ///< of the lease, if nothing was leased: not of the completions
  };

  /// By priority, then run_at, then id.
  std::vector<LeasedTask> lease(const LeaseRequest& request, Companion* companion = nullptr);

  /// False if looking from the head takes long: nobody should have to wait for it.
  bool is_quick(const LeaseRequest& request);

  /// Something of this type went back to an earlier place.
  void forget(const std::string& type) { floors_.forget(type); }

 private:
  enum class From { floor, head };
  struct Round;

  void run_for_the_rest(Round& round);
  void run(Round& round, std::span<const std::string> types, std::size_t share, From from,
           Companion* companion = nullptr);

  ConnectionPool& pool_;
  const Statement statement_;
  ClaimFloors floors_;
  Turns turns_;
};

}  // namespace leasehold::inline v0::postgres
