#pragma once

#include <chrono>
#include <exception>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postgres/connection_pool.hpp"
#include "postgres/lease_floors.hpp"
#include "postgres/statements.hpp"
#include "support/thread_safety.hpp"
#include "support/turns.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {

/// Leases tasks. Gives each type its fair share, and begins each search where tasks are likely.
/// Leases whose reply was lost are given back by a later call. Thread-safe.
class Leasing {
 public:
  Leasing(ConnectionPool& pool, const Statements& statements, const PostgresOptions& options);

  /// Completions that share the first statement of a lease, and its commit.
  struct Companion {
    Params params;                      ///< of the statement `complete`
    std::vector<LeaseName> accepted{};  ///< those that were completed
    bool done = false;                  ///< the statement was executed
    std::exception_ptr lease_error{};   ///< what became of the lease after that, unless all is well
  };

  /// The tasks are ordered by priority, then run_at, then id. Once the companion is done, only
  /// that says what is wrong with the lease.
  std::vector<LeasedTask> lease(const LeaseRequest& request, std::size_t starts,
                                Companion* companion = nullptr);

  enum class When { if_due, now };
  /// Gives back what was leased by statements whose reply was lost.
  void give_back_lost(When when);

  /// Whether a lease of these types takes hardly longer than a completion, as far as is known.
  bool is_quick(const LeaseRequest& request);

  /// A task of this type went back to an earlier place: search from the head next time.
  void forget(const std::string& type) { floors_.forget(type); }

 private:
  using Clock = std::chrono::steady_clock;
  enum class From { floor, head };
  struct Call;
  /// A statement whose reply was lost. Its tasks may be leased to nobody.
  struct Lost {
    LeaseId lease;
    Clock::time_point until;  ///< then it need not be looked for any more
  };

  void run_for_the_rest(Call& call);
  void run(Call& call, std::span<const std::string> types, std::size_t share, From from);
  using Scans = std::map<std::string_view, LeaseFloors::Scan>;
  struct Reply;
  void take(Call& call, Reply& reply, std::span<const std::string> types, std::size_t share,
            Scans& scans);
  Reply send(const Call& call, const Params& params, Companion* companion);
  void look_for_later(const Call& call) noexcept;

  ConnectionPool& pool_;
  const Statements& statements_;
  const PostgresOptions& options_;
  const std::chrono::milliseconds patience_;  // with somebody who has locked the table
  LeaseFloors floors_;
  Turns turns_;

  ThreadMutex mutex_;
  std::vector<Lost> lost_ LEASEHOLD_GUARDED_BY(mutex_);
  Clock::time_point next_give_back_ LEASEHOLD_GUARDED_BY(mutex_){};
};

}  // namespace leasehold::inline v0::postgres
