#pragma once

#include <span>
#include <stop_token>
#include <vector>

#include "support/backoff.hpp"
#include "tasks/runtime/worker_context.hpp"

namespace leasehold::inline v0 {

/// Writes the outcomes of tasks. One that could not be written, because the store is away, is kept
/// and written later; one whose reply was lost is written again and, if that is refused, looked up.
class Settler {
 public:
  explicit Settler(const WorkerContext& context);

  void run(const std::stop_token& stop);

  /// Writes what is there: completions in one statement, releases in one, failures one by one.
  /// Returns what could not be written.
  std::vector<TaskRunPtr> settle(std::vector<TaskRunPtr> runs);

 private:
  using Runs = std::vector<TaskRunPtr>;

  template <typename Write>
  void attempt(const char* what, const Runs& runs, Write&& write);
  void complete(const Runs& runs, Keep keep);
  void complete_halves(const Runs& runs, Keep keep);
  void release(const Runs& runs);
  void fail(const TaskRunPtr& run);
  void settled(const TaskRunPtr& run, TaskEventType how);
  void refused(const TaskRunPtr& run, const char* what);
  void unknown(const TaskRunPtr& run, const char* what);

  const WorkerContext& context_;
  // of the round under way
  Runs unwritten_;
  bool away_ = false;  // the store: not asked again, for each time-out would be waited for in turn
};

}  // namespace leasehold::inline v0
