#pragma once

#include <spdlog/logger.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include "leasehold/errors.hpp"

namespace leasehold::inline v0 {

/// Says once that the store can not be reached, and once that it is back, whoever of a worker's
/// threads finds out. Says once a minute what the store refuses. Thread-safe.
class Outage {
 public:
  Outage(std::shared_ptr<spdlog::logger> logger, std::string worker)
      : logger_(std::move(logger)), worker_(std::move(worker)) {}

  void failed(const char* during, const Error& error) {
    const std::lock_guard guard(mutex_);
    const auto now = Clock::now();
    if (dynamic_cast<const ServerRefused*>(&error) != nullptr) {
      if (now < next_refusal_) return;
      next_refusal_ = now + std::chrono::minutes{1};
      logger_->error("worker refused worker={} during={} error=\"{}\"", worker_, during,
                     error.what());
    } else if (!unreachable_.exchange(true)) {
      since_ = now;
      logger_->warn("worker can not reach its tasks, tries again worker={} during={} error=\"{}\"",
                    worker_, during, error.what());
    }
  }

  void over() {
    if (!unreachable_.load(std::memory_order_relaxed)) return;
    const std::lock_guard guard(mutex_);
    if (!unreachable_.exchange(false)) return;
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since_);
    logger_->warn("worker reaches its tasks again worker={} after_ms={}", worker_, ms.count());
  }

 private:
  using Clock = std::chrono::steady_clock;

  const std::shared_ptr<spdlog::logger> logger_;
  const std::string worker_;
  std::atomic<bool> unreachable_{false};
  std::mutex mutex_;
  // guarded by mutex_
  Clock::time_point since_;
  Clock::time_point next_refusal_;
};

}  // namespace leasehold::inline v0
