#pragma once

#include <chrono>
#include <string_view>

#include "leasehold/export.hpp"
#include "leasehold/task.hpp"
#include "leasehold/task_record.hpp"

namespace leasehold::inline v0 {

/// What can happen to a task in a worker, in the order of its life there.
enum class TaskEventType {
  leased,       ///< leased, to be started soon
  started,      ///< the handler was called; `elapsed` is the time since the task was due
  completed,    ///< completed; `elapsed` is the run time, as in the following events
  failed,       ///< failed, to be retried
  dead,         ///< failed for the last time
  released,     ///< given back; the attempt does not count
  lost,         ///< the lease is gone; `reason` is lease_lost or cancelled
  stale_write,  ///< a write was refused because the lease was gone
};

LEASEHOLD_API const char* to_string(TaskEventType type) noexcept;

struct TaskEvent {
  TaskEventType type;
  TaskId id;
  TaskVersion version;
  std::string_view task_type;
  int attempt = 0;
  std::chrono::microseconds elapsed{0};  ///< see the type; 0 if the handler was not started
  StopReason reason = StopReason::none;  ///< why the handler was asked to stop, if it was
};

/// Receives every event of a worker's tasks. It is called on the thread on which the event happens,
/// which may be the one that renews leases: return quickly, and do not call the worker. An
/// exception is logged and has no other effect.
class LEASEHOLD_API TaskObserver {
 public:
  virtual ~TaskObserver() = default;
  virtual void on_task_event(const TaskEvent& event) = 0;
};

}  // namespace leasehold::inline v0
