#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "leasehold/export.hpp"
#include "leasehold/histogram.hpp"
#include "leasehold/task.hpp"

namespace leasehold::inline v0 {

/// Why a handler was told to stop.
enum class StopReason {
  none,        ///< it was not
  lease_lost,  ///< the lease is gone: recovered, or PostgreSQL was unreachable for too long
  cancelled,   ///< somebody called the task off
  deadline,    ///< the handler took longer than HandlerOptions::deadline
  shutdown,    ///< the worker stops, and the grace period is over
};

/// What can happen to a task in a worker, in the order of its life there.
enum class TaskEventType {
  leased,       ///< ours, to be started soon
  started,      ///< `elapsed` is the time since it was due
  completed,    ///< `elapsed` is the run time, as below
  failed,       ///< to be tried again
  dead,         ///< failed for the last time
  released,     ///< given back, the attempt not counted
  lost,         ///< the lease is gone; `reason` is lease_lost or cancelled
  stale_write,  ///< something was not written because the lease was gone
};

LEASEHOLD_API const char* to_string(StopReason reason) noexcept;
LEASEHOLD_API const char* to_string(TaskEventType type) noexcept;

struct TaskEvent {
  TaskEventType type;
  TaskId id;
  TaskVersion version;
  std::string_view task_type;
  int attempt = 0;
  std::chrono::microseconds elapsed{0};  ///< see the type; 0 if the handler was not started
  StopReason reason = StopReason::none;  ///< why the handler was told to stop, if it was
};

/// Told of everything that happens to the tasks of a worker. Called on the thread where it happens,
/// among them the renewal thread: be quick, do not throw, do not call the worker back.
class LEASEHOLD_API TaskObserver {
 public:
  virtual ~TaskObserver() = default;
  virtual void on_task_event(const TaskEvent& event) noexcept = 0;
};

/// What one worker did since it was made. Counts tasks, not calls; stale writes and renewals may be
/// several of one task.
struct WorkerStats {
  std::uint64_t leased = 0;
  std::uint64_t started = 0;
  std::uint64_t completed = 0;
  std::uint64_t failed = 0;  ///< attempts, those that ended in `dead` counted
  std::uint64_t dead = 0;
  std::uint64_t released = 0;
  std::uint64_t lost = 0;          ///< leases, cancelled tasks counted
  std::uint64_t stale_writes = 0;  ///< not written because the lease was gone
  std::uint64_t renewals = 0;      ///< of leases, not statements

  std::uint64_t running = 0;     ///< handlers, now
  std::uint64_t prefetched = 0;  ///< leased and not started, now
  std::uint64_t settling = 0;    ///< finished and not yet acknowledged by the store, now

  Histogram run_time;  ///< of handlers
  /// From when a task was due until its handler began. By this machine's clock against the
  /// database's, so it is as good as these two agree.
  Histogram time_to_start;
};

}  // namespace leasehold::inline v0
