#pragma once

#include <spdlog/fwd.h>

#include <array>
#include <atomic>
#include <memory>

#include "leasehold/worker_observer.hpp"
#include "leasehold/worker_stats.hpp"
#include "support/live_histogram.hpp"
#include "tasks/runtime/task_run.hpp"

namespace leasehold::inline v0 {

/// Counts what happens to the tasks of one worker and tells its observer. Thread-safe.
class WorkerTelemetry {
 public:
  explicit WorkerTelemetry(std::shared_ptr<TaskObserver> observer,
                           std::shared_ptr<spdlog::logger> logger = nullptr)
      : observer_(std::move(observer)), logger_(std::move(logger)) {}

  void record(TaskEventType type, const TaskRun& run,
              std::chrono::microseconds elapsed = {}) noexcept;
  void returned(std::chrono::microseconds run_time) noexcept { run_time_.add(run_time); }
  void renewed(std::size_t leases) noexcept {
    renewals_.fetch_add(leases, std::memory_order_relaxed);
  }

  /// All numbers but those that describe the present.
  WorkerStats snapshot() const noexcept;

 private:
  std::uint64_t count(TaskEventType type) const noexcept {
    return counts_[static_cast<std::size_t>(type)].load(std::memory_order_relaxed);
  }

  void tell(const TaskEvent& event) noexcept;

  const std::shared_ptr<TaskObserver> observer_;
  const std::shared_ptr<spdlog::logger> logger_;  // may be null
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(TaskEventType::stale_write) + 1>
      counts_{};
  std::atomic<std::uint64_t> renewals_{0};
  LiveHistogram run_time_;
  LiveHistogram time_to_start_;
};

}  // namespace leasehold::inline v0
