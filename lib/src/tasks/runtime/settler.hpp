#pragma once

#include <exception>
#include <span>
#include <stop_token>
#include <vector>

#include "support/backoff.hpp"
#include "tasks/lease_writes.hpp"
#include "tasks/runtime/worker_context.hpp"

namespace leasehold::inline v0 {

/// Writes the outcomes of tasks. Those that cannot be written because the store is unreachable are
/// kept and written later.
class Settler {
 public:
  explicit Settler(const WorkerContext& context);

  void run(const std::stop_token& stop);

  /// Writes completions in one statement, releases in one, and failures one by one. Returns the
  /// tasks whose outcome could not be written.
  std::vector<TaskRunPtr> settle(std::vector<TaskRunPtr> runs);

 private:
  using Runs = std::vector<TaskRunPtr>;

  void complete(const Runs& runs, Keep keep);
  void release(const Runs& runs);
  void fail(const TaskRunPtr& run);
  void apply(const char* what, const Runs& runs, const WriteResults& results, TaskEventType event);
  void note_trouble(const char* what, const std::exception_ptr& error);
  void refused(const TaskRunPtr& run, const char* what);
  void unknown(const TaskRunPtr& run, const char* what);

  const WorkerContext& context_;
  LeaseWrites writes_;
  // of the call of settle() under way
  Runs unwritten_;
  // The store is unreachable. It is not asked again, because each call would wait for its time-out.
  bool away_ = false;
};

}  // namespace leasehold::inline v0
