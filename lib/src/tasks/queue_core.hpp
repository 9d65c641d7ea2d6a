#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/task_queue.hpp"
#include "tasks/fleet_upkeep.hpp"
#include "tasks/held_lease.hpp"
#include "tasks/lease_writes.hpp"
#include "tasks/task_store.hpp"
#include "tasks/telemetry.hpp"

namespace leasehold::inline v0 {

/// What a TaskLease knows. It belongs to one thread at a time, as the handle does.
struct TaskLease::State : HeldLease {
  State(std::shared_ptr<QueueCore> queue, LeasedTask leased, const LeaseRequest& request,
        Clock::time_point trusted_until);

  /// Notes what became of a write that ends the lease. The result is accepted or stale.
  LeaseWrite end(WriteResult result, const char* during);
  /// Notes that a write was refused.
  LeaseWrite lose(const char* during);
  /// For destructors: fails the task, so that it does not have to wait for the lease to expire.
  void drop() noexcept;

  const std::shared_ptr<QueueCore> core;
  const std::string worker;
  std::chrono::milliseconds duration;  ///< of the last renewal
};

/// What a queue, its leases, its workers and its recovery share. Lives until the last of them is
/// gone. Thread-safe.
class QueueCore : public std::enable_shared_from_this<QueueCore> {
 public:
  QueueCore(std::unique_ptr<TaskStore> store, TaskQueueOptions options);

  static const std::shared_ptr<QueueCore>& of(TaskQueue& queue) { return queue.core_; }
  static TaskLease::State& state(TaskLease& lease) { return *lease.state_; }

  std::vector<TaskLease> lease(LeaseRequest request);

  /// The same without handles and without upkeep, for a worker, which has checked the request.
  struct Leased {
    std::vector<LeasedTask> tasks;
    BootClock::time_point valid_until;
  };
  /// `starts`: how many of the tasks will be started at once.
  Leased lease_tasks(const LeaseRequest& request, std::size_t starts);

  /// Does this process's share of the upkeep if it is time. Returns how many tasks were recovered.
  /// Throws if the store is unreachable, so that the caller does not wait for it twice; a refusal
  /// is only logged, at most once a minute.
  std::size_t look_after();

  /// How many processes look for tasks in this queue, as far as is known.
  std::size_t fleet() const noexcept { return upkeep_.fleet(); }

  /// How long to wait before the next attempt at a failed task. None: it is not tried again.
  std::optional<std::chrono::milliseconds> retry_after(const Retry& retry, int attempts) const;

  /// Checks the result of a completion, which is empty or JSON.
  void check_result(std::string_view result) const;

  Keep keep() const noexcept { return keep_by(options.retention); }
  static Keep keep_by(const Retention& retention) noexcept {
    return retention.deletes_at_once() ? Keep::no : Keep::yes;
  }

  const TaskQueueOptions options;
  const RunnerId runner;
  const std::shared_ptr<spdlog::logger> logger;
  const std::unique_ptr<TaskStore> store;
  TaskTelemetry telemetry;
  LeaseWrites writes;

  /// Counts and logs tasks whose expired leases were taken back.
  void note_recovered(const std::vector<RecoveredTask>& tasks);

 private:
  FleetUpkeep upkeep_;
  std::atomic<BootClock::time_point> next_upkeep_log_{BootClock::time_point::min()};
};

}  // namespace leasehold::inline v0
