#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "leasehold/worker.hpp"
#include "support/backoff.hpp"
#include "tasks/held_lease.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0 {

/// A type of task and how a worker handles it.
struct TaskKind {
  std::string type;
  TaskHandler handler;
  HandlerOptions options;
  Keep keep = Keep::yes;
};

/// What is to become of a task.
struct TaskOutcome {
  enum class Kind { complete, fail, release };

  Kind kind = Kind::complete;
  std::string text{};  ///< the result, or the error
  /// How long the task waits before it is due again. None: a failed task is not retried, and a
  /// released one keeps its place in the queue.
  std::optional<std::chrono::milliseconds> delay{};
  GivenBack when = GivenBack::in_order;  ///< if it is released
};

/// A task in a worker, from its lease until the worker is done with it. Shared by the worker's
/// threads; a handler that has lost its lease may still be running in stage `ended`.
struct TaskRun : HeldLease {
  TaskRun(LeasedTask leased, const TaskKind& handled, std::size_t in_lane,
          Clock::time_point trusted_until)
      : HeldLease(std::move(leased), LeaseStage::queued, trusted_until),
        kind(handled),
        lane(in_lane),
        bytes(task.payload.size() + task.progress.size()) {}

  /// Asks the handler to stop, once. Must not be called under the board's mutex, because callbacks
  /// of the handler run here.
  void tell(StopReason why) noexcept {
    auto expected = StopReason::none;
    if (reason.compare_exchange_strong(expected, why)) stop.request_stop();
  }

  /// After the store has refused to write this task, alone or with others.
  void put_off(bool alone) {
    settles_alone = alone;
    retry_at = Clock::now() + again.next();
  }

  /// Frees what only the handler needs, once it has returned: the outcome may have to wait.
  void forget_payload() noexcept {
    std::string{}.swap(task.payload);
    std::string{}.swap(task.progress);
  }

  const TaskKind& kind;
  const std::size_t lane;   // on the board
  const std::size_t bytes;  // of its payload and its progress when it was leased
  std::stop_source stop;
  std::atomic<StopReason> reason{StopReason::none};
  std::string result;  // belongs to the handler until it has returned, as `task.progress` does

  // The following, and `stage` and `perhaps_completed`, are guarded by the board's mutex.
  // `in_doubt` belongs to the settler.
  bool lost = false;
  bool in_handler = false;
  bool waited_enough = false;  // for being the only task of the worker
  bool renewing = false;       // a statement that renews it is under way
  bool saving = false;         // the settler is writing its progress
  // Progress that could not be written yet. Once the stage is `settling`, it belongs to the
  // settler.
  std::optional<std::string> unsaved;
  Clock::time_point granted;  // when we learned of the lease, or of its last renewal
  Clock::time_point queued_at;
  std::optional<Clock::time_point> started_at;
  std::optional<Clock::time_point> deadline;  // of the handler
  std::chrono::microseconds run_time{0};      // 0 for a handler that returned too late
  TaskOutcome outcome;

  // Belong to the settler while it has the task, and to the board otherwise.
  bool settles_alone = false;    // it was refused by itself, and must not hold up the others again
  int refusals = 0;              // for good, of this outcome by itself
  int failed_saves = 0;          // of progress, for a reason that no store should have
  bool replaced = false;         // the outcome is a failure in place of another that was refused
  Clock::time_point retry_at{};  // what could not be written is not tried again before
  Backoff again{std::chrono::milliseconds{250}, std::chrono::milliseconds{10'000}};
};

using TaskRunPtr = std::shared_ptr<TaskRun>;

}  // namespace leasehold::inline v0
