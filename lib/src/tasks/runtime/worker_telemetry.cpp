#include "tasks/runtime/worker_telemetry.hpp"

#include "support/log_event.hpp"

#include <spdlog/logger.h>

namespace leasehold::inline v0 {

void WorkerTelemetry::record(TaskEventType type, const TaskRun& run,
                             std::chrono::microseconds elapsed) noexcept {
  counts_[static_cast<std::size_t>(type)].fetch_add(1, std::memory_order_relaxed);
  if (type == TaskEventType::started) time_to_start_.add(elapsed);
  if (!observer_) return;
  tell({.type = type,
        .id = run.task.key.id,
        .version = run.task.key.version,
        .task_type = run.task.type,
        .attempt = run.task.attempts,
        .elapsed = elapsed,
        .reason = run.reason.load()});
}

void WorkerTelemetry::tell(const TaskEvent& event) noexcept {
  const auto log = [&](const char* error) {
    if (!logger_) return;
    log_error(*logger_, "task observer failed",
              {{"id", event.id.value},
               {"version", event.version.value},
               {"event", to_string(event.type)},
               {"error", error}});
  };
  try {
    observer_->on_task_event(event);
  } catch (const std::exception& error) {
    log(error.what());
  } catch (...) {
    log("not a std::exception");
  }
}

WorkerStats WorkerTelemetry::snapshot() const noexcept {
  using Type = TaskEventType;
  WorkerStats stats;
  stats.leased = count(Type::leased);
  stats.started = count(Type::started);
  stats.completed = count(Type::completed);
  stats.failed = count(Type::failed) + count(Type::dead);
  stats.dead = count(Type::dead);
  stats.released = count(Type::released);
  stats.lost = count(Type::lost);
  stats.stale_writes = count(Type::stale_write);
  stats.renewals = renewals_.load(std::memory_order_relaxed);
  stats.run_time = run_time_.snapshot();
  stats.time_to_start = time_to_start_.snapshot();
  return stats;
}

}  // namespace leasehold::inline v0
