#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/recovery.hpp"
#include "leasehold/task_queue.hpp"
#include "tasks/task_store.hpp"
#include "tasks/telemetry.hpp"

namespace leasehold::inline v0 {

/// What a TaskLease knows. Belongs to one thread at a time, as the handle does.
struct TaskLease::State {
  enum class Stage {
    held,         ///< ours, as far as we know
    handed_over,  ///< completed in a transaction of the caller that may not have been committed
    ended,        ///< by us, or lost
  };

  std::shared_ptr<QueueCore> core;
  LeasedTask task;
  std::string worker;
  std::chrono::milliseconds duration{0};
  std::chrono::steady_clock::time_point valid_until;
  Stage stage = Stage::held;
  bool perhaps_ended = false;  ///< the reply to complete() or fail() was lost, and so was its trace
};

/// Until when a lease that was asked for at `sent` is ours for certain: before the store's end of
/// it, because our clock may run slower than the server's.
std::chrono::steady_clock::time_point trusted_until(std::chrono::steady_clock::time_point sent,
                                                    std::chrono::milliseconds duration);

/// What a queue, its leases, its workers and its recovery share: the store, and what surrounds each
/// call to it. Lives until the last of them is gone. Thread-safe.
class QueueCore : public std::enable_shared_from_this<QueueCore> {
 public:
  QueueCore(std::unique_ptr<TaskStore> store, TaskQueueOptions options);

  static const std::shared_ptr<QueueCore>& of(TaskQueue& queue) { return queue.core_; }
  static TaskLease::State& state(TaskLease& lease) { return *lease.state_; }

  std::vector<Enqueued> enqueue(std::span<const NewTask> tasks);
  /// The same with another way to the store: `insert` takes tasks none of whose keys occurs twice.
  std::vector<Enqueued> enqueue(
      std::span<const NewTask> tasks,
      const std::function<std::vector<Enqueued>(std::span<const NewTask>)>& insert);
  std::vector<TaskLease> lease(LeaseRequest request);
  /// The same without handles, for a worker.
  struct Leased {
    std::vector<LeasedTask> tasks;
    std::chrono::steady_clock::time_point valid_until;
  };
  Leased lease_tasks(const LeaseRequest& request);

  // Writes of lease holders.
  LeaseWrite extend(TaskLease::State& lease, std::chrono::milliseconds duration);
  std::vector<TaskId> extend(std::span<TaskLease> leases);
  LeaseWrite progress(TaskLease::State& lease, std::string_view json);
  LeaseWrite progress(const LeaseKey& key, std::string_view json);
  std::vector<TaskId> complete(std::span<const Completion> completions);
  FailOutcome fail(TaskLease::State& lease, std::string_view error, const Retry& retry);
  std::vector<TaskId> release(std::span<TaskLease::State* const> leases,
                              std::optional<std::chrono::milliseconds> delay);
  /// Completes a task in a transaction of the caller, by `write`. Throws LeaseLost if it is stale.
  using JoinedWrite = std::function<LeaseWrite(const FinishedTask&, Keep)>;
  void complete_joined(TaskLease::State& lease, std::string_view result, const JoinedWrite& write);
  /// For destructors.
  void drop(TaskLease::State& lease) noexcept;

  // After a write whose reply was lost was made again and refused: what the first one did. Nothing
  // if that can not be told any more.
  std::optional<bool> was_completed(const LeaseKey& key,
                                    std::chrono::steady_clock::time_point valid_until);
  std::optional<FailOutcome> was_failed(const LeaseKey& key, std::string_view kept_error);

  /// When an attempt that failed is to be made again. None: never.
  std::optional<std::chrono::milliseconds> retry_after(const Retry& retry, int attempts) const;

  /// Throws InvalidArgument if the lease has ended.
  static void check_not_ended(const TaskLease::State& lease, const char* what);
  /// Checks the result of a completion, empty or JSON.
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

 private:
  static void check_not_handed_over(const TaskLease::State& lease, const char* what);
  template <typename Write>
  auto again_if_unknown(const char* what, Write&& write, bool* repeated = nullptr);
  bool completed_before(const TaskLease::State& lease);
  FailOutcome failed_before(const TaskLease::State& lease, std::string_view kept_error);
  void lost(TaskLease::State& lease, const char* what);
};

}  // namespace leasehold::inline v0
