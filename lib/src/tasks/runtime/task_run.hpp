#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "leasehold/worker.hpp"
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
  /// Until it may be tried again. None: for a failed task never, for a released one at its place.
  std::optional<std::chrono::milliseconds> delay{};
};

/// A task that a worker has leased, from the lease until the worker has nothing to do with it any
/// more. Shared by the worker's threads.
struct TaskRun {
  using Clock = std::chrono::steady_clock;

  /// What its lease is for.
  enum class Stage {
    queued,       ///< to be started
    running,      ///< its handler works
    handed_over,  ///< its handler completes it in a transaction of its own
    settling,     ///< its outcome is to be written
    ended,        ///< for nothing: settled or lost. Its handler may still run, and is not heard
  };

  TaskRun(LeasedTask leased, const TaskKind& handled, std::size_t in_lane,
          Clock::time_point trusted)
      : task(std::move(leased)), kind(handled), lane(in_lane), valid_until(trusted) {}

  /// Tells the handler, once. Not under the board's mutex: callbacks of the handler run here.
  void tell(StopReason why) noexcept {
    auto expected = StopReason::none;
    if (reason.compare_exchange_strong(expected, why)) stop.request_stop();
  }

  /// Its lease expired before: it may kill its worker, and with it the leases of others.
  bool suspect() const noexcept { return task.crash_count == 1; }
  /// More than once.
  bool dangerous() const noexcept { return task.crash_count > 1; }

  LeasedTask task;  // its `progress` belongs to the handler
  const TaskKind& kind;
  const std::size_t lane;  // of the board
  std::stop_source stop;
  std::atomic<StopReason> reason{StopReason::none};
  std::string result;  // the handler's, until it has returned

  // the settler's
  bool perhaps_written = false;  // the reply to a write of the outcome was lost

  // guarded by the board's mutex
  Stage stage = Stage::queued;
  bool lost = false;
  bool in_handler = false;
  bool waited_enough = false;     // to be started alone
  bool renewing = false;          // a statement that renews it is under way
  bool was_handed_over = false;   // it may have been completed by its handler
  Clock::time_point granted;      // when the lease, or its last renewal, was learnt
  Clock::time_point valid_until;  // the end of trust
  Clock::time_point queued_at;
  Clock::time_point started_at;
  std::optional<Clock::time_point> deadline;  // of the handler
  std::chrono::microseconds run_time{0};      // not of one that returned too late
  TaskOutcome outcome;
};

using TaskRunPtr = std::shared_ptr<TaskRun>;

}  // namespace leasehold::inline v0
