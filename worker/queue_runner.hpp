#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>

#include "outage.hpp"
#include "round.hpp"
#include "support/backoff.hpp"

namespace leasehold::worker {

inline constexpr Outage::Events round_outage{.failed = "round failed, will keep trying",
                                             .still_fails = "round still fails",
                                             .works_again = "round works again"};

/// Runs the rounds of one queue on a thread of its own, so that a server that hangs delays no other
/// queue. The destructor waits for the end of the round.
class QueueRunner {
 public:
  QueueRunner(const common::QueueConfig& config, std::shared_ptr<QueueStatus> status,
              std::shared_ptr<spdlog::logger> log);

  const common::QueueConfig& config() const { return config_; }
  const std::shared_ptr<QueueStatus>& status() const { return status_; }

  /// Ends the thread after the present round. Does not wait.
  void request_stop() { thread_.request_stop(); }
  bool finished() const { return finished_; }

 private:
  void run(const std::stop_token& stop);
  /// Runs one round. Returns when the next one is due.
  SteadyTime run_round(const std::stop_token& stop);

  const common::QueueConfig config_;
  const std::shared_ptr<QueueStatus> status_;
  const std::shared_ptr<spdlog::logger> log_;
  std::optional<Round> round_;  // until the thread ends
  Backoff backoff_;
  Outage outage_{round_outage};
  std::atomic<bool> finished_{false};
  std::jthread thread_;  // last, because it uses everything above
};

/// Runs one round, for --once. Returns false if it failed, and logs why.
bool run_one_round(const common::QueueConfig& config, std::shared_ptr<spdlog::logger> log);

}  // namespace leasehold::worker
