#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "leasehold/export.hpp"
#include "leasehold/recovery_options.hpp"
#include "leasehold/task_record.hpp"

namespace leasehold::inline v0 {

class QueueCore;  // internal
class TaskQueue;

/// A task whose expired lease was taken back.
struct RecoveredTask {
  TaskId id;
  std::string type;
  TaskState state = TaskState::pending;  ///< its new state: pending or dead
  std::string worker;                    ///< the worker that did not renew the lease
  std::chrono::milliseconds overdue{0};  ///< how long ago the lease expired
  /// Crashes of this task since an attempt last ended in order. This one is included if the task
  /// had been started.
  int crash_count = 0;
};

/// What recovery did, in one batch or in all.
struct RecoveryReport {
  std::vector<RecoveredTask> tasks;
  std::size_t requeued = 0;  ///< of these, tasks that are pending again
  std::size_t dead = 0;      ///< and tasks that are dead
  std::size_t batches = 0;   ///< statements that recovered something
};

/// Takes back the leases of crashed workers. A task whose lease has expired becomes pending again
/// at its old place in the queue, or dead after too many crashes or attempts. Only the store's
/// clock decides whether a lease has expired, and a renewal or completion that commits first wins.
///
/// Any number of processes may do this at once; each lease is taken back once.
///
/// Thread safety: every member may be called from any thread.
class LEASEHOLD_API Recovery {
 public:
  explicit Recovery(TaskQueue& queue, RecoveryOptions options = {});

  /// Takes back all expired leases and returns what it did. After a large outage the report can be
  /// large too; recover_in_batches() needs memory for one batch only.
  ///
  /// Throws as TaskQueue does. What was recovered before stays recovered.
  RecoveryReport run_once();

  /// Takes back all expired leases, and calls `on_batch` after each batch that recovered something,
  /// once it is committed. Throws as TaskQueue does, and what `on_batch` throws.
  void recover_in_batches(const std::function<void(const RecoveryReport& batch)>& on_batch);

 private:
  std::shared_ptr<QueueCore> core_;
  RecoveryOptions options_;
};

}  // namespace leasehold::inline v0
