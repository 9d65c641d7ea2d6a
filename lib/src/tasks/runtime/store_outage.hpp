#pragma once

#include <spdlog/logger.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <string>

#include "leasehold/errors.hpp"
#include "support/log_event.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0 {

/// Whether this is the fault of a server that is unreachable, or refuses to work for the time
/// being.
inline bool tells_of_outage(const std::exception& error) {
  const auto* refused = dynamic_cast<const ServerRefused*>(&error);
  return (refused != nullptr && refused->transient()) ||
         dynamic_cast<const Unavailable*>(&error) != nullptr ||
         dynamic_cast<const OutcomeUnknown*>(&error) != nullptr;
}

/// Logs once that a worker cannot reach its store, and once that it can again, whichever of its
/// threads notices. Logs refusals, and what no store should throw, at most once a minute.
/// Thread-safe.
class StoreOutage {
 public:
  StoreOutage(std::shared_ptr<spdlog::logger> logger, std::string worker)
      : logger_(std::move(logger)), worker_(std::move(worker)) {}

  void failed(const char* during, const std::exception& error) {
    const ThreadLock lock(mutex_);
    const auto now = Clock::now();
    const bool ours = dynamic_cast<const Error*>(&error) != nullptr;
    if (!ours || dynamic_cast<const ServerRefused*>(&error) != nullptr) {
      if (now < next_refusal_) return;
      next_refusal_ = now + std::chrono::minutes{1};
      if (ours) {
        log_error(*logger_, "worker refused",
                  {{"worker", worker_}, {"during", during}, {"error", error.what()}});
      } else {
        log_error(*logger_, "worker failed, tries again",
                  {{"worker", worker_}, {"during", during}, {"error", error.what()}});
      }
    } else if (!unreachable_.exchange(true)) {
      since_ = now;
      log_warn(*logger_, "worker cannot reach its tasks, tries again",
               {{"worker", worker_}, {"during", during}, {"error", error.what()}});
    }
  }

  void over() {
    if (!unreachable_.load(std::memory_order_relaxed)) return;
    const ThreadLock lock(mutex_);
    if (!unreachable_.exchange(false)) return;
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since_);
    log_warn(*logger_, "worker reaches its tasks again",
             {{"worker", worker_}, {"after_ms", ms.count()}});
  }

 private:
  using Clock = std::chrono::steady_clock;

  const std::shared_ptr<spdlog::logger> logger_;
  const std::string worker_;
  std::atomic<bool> unreachable_{false};
  ThreadMutex mutex_;
  Clock::time_point since_ LEASEHOLD_GUARDED_BY(mutex_);
  Clock::time_point next_refusal_ LEASEHOLD_GUARDED_BY(mutex_);
};

}  // namespace leasehold::inline v0
