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

/// Writes the outcomes of tasks. Those that cannot be written because the store is unreachable are
/// kept and written later.
class Settler {
 public:
  explicit Settler(const WorkerContext& context);

  void run(const std::stop_token& stop);

  /// Writes completions, failures, and releases of the same kind in one statement each. Returns the
  /// tasks whose outcome could not be written.
  std::vector<TaskRunPtr> settle(std::vector<TaskRunPtr> runs);

  /// Writes the progress that handlers have reported while the store was unreachable. Returns
  /// whether all of it was written.
  bool save_progress();

 private:
  using Runs = std::vector<TaskRunPtr>;

  bool save(TaskRun& run, std::string_view progress);
  void complete(const Runs& runs, Keep keep);
  void release(const Runs& runs);
  void fail(const Runs& runs);
  void apply(const char* what, const Runs& runs, const WriteResults& results,
             const std::function<TaskEventType(std::size_t)>& event);
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
