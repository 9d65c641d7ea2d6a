#pragma once

#include <exception>
#include <functional>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

#include "support/backoff.hpp"
#include "tasks/lease_writes.hpp"
#include "tasks/runtime/worker_context.hpp"

namespace leasehold::inline v0 {

/// Writes the outcomes of tasks, and keeps those that cannot be written. While the store is away,
/// it asks nothing for a while. What is refused because of a single task waits for a time of its
/// own, and holds up the others as little as possible.
class Settler {
 public:
  explicit Settler(const WorkerContext& context);

  void run(const std::stop_token& stop);

  /// Writes completions, failures, and releases of the same kind in one statement each. Returns the
  /// tasks whose outcome could not be written. Once stopped, it makes no further call.
  std::vector<TaskRunPtr> settle(std::vector<TaskRunPtr> runs, const std::stop_token& stop = {});

  /// Writes the progress that handlers have reported while it could not be written.
  void save_progress(const std::stop_token& stop = {});

  /// The store was unreachable in the last call of settle(), or after it.
  bool away() const noexcept { return away_; }

 private:
  using Runs = std::vector<TaskRunPtr>;

  bool may_call() const { return !away_ && !stop_.stop_requested(); }
  bool save(TaskRun& run, std::string_view progress);
  void complete(const Runs& runs, Keep keep);
  void release(const Runs& runs);
  void fail(const Runs& runs);
  void apply(const char* what, const Runs& runs, const WriteResults& results,
             const std::function<TaskEventType(std::size_t)>& event);
  void note_trouble(const char* what, const std::exception_ptr& error);
  void refused(const TaskRunPtr& run, const char* what);
  void unknown(const TaskRunPtr& run, const char* what);
  void undecided(const TaskRunPtr& run, const char* what, const std::exception_ptr& error);
  void replace(TaskRun& run, std::string_view refusal);
  void give_up(const TaskRunPtr& run, const char* what, std::string_view refusal);

  const WorkerContext& context_;
  LeaseWrites writes_;
  // Of the call of settle() or save_progress() under way.
  std::stop_token stop_;
  Runs unwritten_;
  LossReasons why_;
  // The store is unreachable, or refuses everything. It is not asked again, because each call would
  // wait for its time-out.
  bool away_ = false;
  // Somebody keeps a row locked. What was refused before is not tried again, because each try would
  // wait for its lock.
  bool locked_ = false;
};

}  // namespace leasehold::inline v0
