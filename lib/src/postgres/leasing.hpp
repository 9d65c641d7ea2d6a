#pragma once

#include <exception>
#include <span>
#include <string>
#include <vector>

#include "postgres/connection_pool.hpp"
#include "postgres/lease_floors.hpp"
#include "support/turns.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {

/// Leases tasks. Gives each type its fair share, and begins each search where tasks are likely.
/// Thread-safe.
class Leasing {
 public:
  /// `statement` is lease.
  Leasing(ConnectionPool& pool, const Statement& statement);

  /// Completions that the same statement makes.
  struct Companion {
    const Statement& statement;    ///< lease_and_complete or lease_and_delete
    Params params;                 ///< of the completions
    std::vector<TaskId> accepted;  ///< the answer
    std::exception_ptr error;      ///< why nothing was leased; the completions were made
  };

  /// The tasks are ordered by priority, then run_at, then id.
  std::vector<LeasedTask> lease(const LeaseRequest& request, Companion* companion = nullptr);

  /// False if a search from the head takes long, so that no other call should wait for it.
  bool is_quick(const LeaseRequest& request);

  /// A task of this type went back to an earlier place: search from the head next time.
  void forget(const std::string& type) { floors_.forget(type); }

 private:
  enum class From { floor, head };
  struct Call;

  void run_for_the_rest(Call& call);
  void run(Call& call, std::span<const std::string> types, std::size_t share, From from,
           Companion* companion = nullptr);

  ConnectionPool& pool_;
  const Statement& statement_;
  LeaseFloors floors_;
  Turns turns_;
};

}  // namespace leasehold::inline v0::postgres
