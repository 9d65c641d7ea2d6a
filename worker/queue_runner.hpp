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

/// Runs the rounds of one queue on a thread of its own, so that a server that hangs holds back no
/// other queue. The destructor waits for the end of the round.
class QueueRunner {
 public:
  QueueRunner(const common::QueueConfig& config, std::shared_ptr<QueueStatus> status,
              std::shared_ptr<spdlog::logger> log);

  const common::QueueConfig& config() const { return config_; }
  const std::shared_ptr<QueueStatus>& status() const { return status_; }

  /// No more rounds after this one. Does not wait.
  void request_stop() { thread_.request_stop(); }
  bool finished() const { return finished_; }

 private:
  void run(const std::stop_token& stop);
  /// Returns when the next round is due.
  SteadyTime run_round(const std::stop_token& stop);

  const common::QueueConfig config_;
  const std::shared_ptr<QueueStatus> status_;
  const std::shared_ptr<spdlog::logger> log_;
  std::optional<Round> round_;  // from the first one that could open its database
  Backoff backoff_;
  Outage outage_{"round"};
  std::atomic<bool> finished_{false};
  std::jthread thread_;  // last: it uses everything above
};

/// One round, for --once. Logs what is wrong.
bool run_one_round(const common::QueueConfig& config, std::shared_ptr<spdlog::logger> log);

}  // namespace leasehold::worker
