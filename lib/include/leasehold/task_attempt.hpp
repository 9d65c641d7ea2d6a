#pragma once

#include <string>

#include "leasehold/export.hpp"
#include "leasehold/task_record.hpp"

namespace leasehold::inline v0 {

struct LeasedTask;  // internal

/// The result of a write that only the holder of a lease may make.
enum class LeaseWrite {
  accepted,  ///< the lease was ours, and the write was stored
  stale,     ///< nothing was written: the lease expired and was recovered, or the task has ended
  deferred,  ///< the store is unreachable: the worker writes it later. Only from Task::progress()
};

LEASEHOLD_API const char* to_string(LeaseWrite write) noexcept;

/// One attempt at a task: what its worker knows about the task when it starts. The common base of
/// TaskLease and of the Task that a Worker passes to its handlers.
///
/// Thread safety: every member may be called from any thread, last_progress() only while no other
/// thread reports progress.
class LEASEHOLD_API TaskAttempt {
 public:
  TaskId id() const noexcept;

  /// Grows with every lease. Pass it on to systems that should refuse a worker which lost its
  /// lease without noticing.
  TaskVersion version() const noexcept;

  const std::string& type() const noexcept;
  const std::string& payload() const noexcept;  ///< JSON
  int priority() const noexcept;

  /// 1 for the first attempt.
  int attempt() const noexcept;
  int max_attempts() const noexcept;

  /// How many leases of this task expired after it had been started, probably because their worker
  /// crashed. Counted since an attempt last ended in order.
  int crash_count() const noexcept;

  /// The last progress that this attempt or an earlier one reported: JSON, or empty if there is
  /// none.
  const std::string& last_progress() const noexcept;

 protected:
  explicit TaskAttempt(const LeasedTask* task) noexcept : task_(task) {}
  ~TaskAttempt() = default;
  TaskAttempt(const TaskAttempt&) noexcept = default;
  TaskAttempt& operator=(const TaskAttempt&) noexcept = default;

 private:
  const LeasedTask* task_;  // owned by the derived class
};

}  // namespace leasehold::inline v0
