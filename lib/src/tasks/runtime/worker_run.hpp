#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tasks/runtime/leaser.hpp"
#include "tasks/runtime/renewer.hpp"
#include "tasks/runtime/settler.hpp"
#include "tasks/runtime/worker_context.hpp"

namespace leasehold::inline v0 {

/// One call of Worker::run(): its threads, and what handlers call. The caller's thread watches
/// deadlines and the end of trust, and never waits for a server.
class WorkerRun {
 public:
  WorkerRun(QueueCore& core, const WorkerOptions& options, const std::string& name,
            std::span<const TaskKind> kinds, WorkerTelemetry& telemetry);

  /// Works until `stop`, then stops as Worker::run() describes; `now` ends the grace period.
  void run(const std::stop_token& stop, const std::stop_token& now);

  TaskBoard::Load load() const { return board_.load(); }

  // What handlers call.
  LeaseWrite progress(const TaskRunPtr& run, std::string_view json);
  void check_result(std::string_view json) const { context_.core.check_result(json); }
  bool shutting_down() const noexcept { return shutting_down_.load(); }

  static WorkerRun& of(Task& task) { return task.worker_; }
  static const TaskRunPtr& run_of(Task& task) { return task.run_; }
  /// Completes the task in a transaction of its handler. Throws LeaseLost if the lease is gone.
  void complete_in(const CallersTransaction& transaction, const TaskRunPtr& run,
                   std::string_view result);

 private:
  using Clock = TaskBoard::Clock;

  void handle(const std::stop_token& stop);
  TaskOutcome call_handler(const TaskRunPtr& run);
  TaskOutcome outcome_of_handler(const TaskRunPtr& run);
  TaskOutcome failure(const TaskRun& run, std::string_view error) const;
  TaskOutcome after_outage(const TaskRun& run, std::string_view error) const;
  LeaseWrite write_progress(const TaskRunPtr& run, std::string_view json);
  void listen(const std::stop_token& stop);
  void give_back_lost();
  void watch(Clock::time_point until, const std::function<bool(const TaskBoard::Load&)>& done);

  TaskBoard board_;
  StoreOutage outage_;
  const WorkerContext context_;
  Leaser leaser_;
  Renewer renewer_;
  Settler settler_;
  std::atomic<bool> shutting_down_{false};
};

}  // namespace leasehold::inline v0
