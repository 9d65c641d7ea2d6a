#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <set>
#include <string>

#include "common/config.hpp"
#include "leasehold/tasks.hpp"
#include "status.hpp"

namespace leasehold::worker {

/// What is done for one queue again and again: take back expired leases, remove what finished long
/// ago, look how it fares. For one thread.
class Round {
 public:
  Round(const common::QueueConfig& config, std::shared_ptr<QueueStatus> status,
        std::shared_ptr<spdlog::logger> log);

  /// Returns what it saw; nothing if it did not look this time. Throws leasehold::Error; what was
  /// done before stays done, and counted.
  std::optional<Measured> run_once();

  /// What went wrong, and during which step.
  std::string describe(const std::exception& error) const;

 private:
  void recover();
  void count_retries();
  void remove_finished(SteadyTime until);
  std::uint64_t remove(TaskState state, std::optional<std::chrono::milliseconds> age,
                       SteadyTime until);
  std::optional<Measured> measure_if_due();
  Measured measure();
  void warn_of_long_transaction(const QueueHealth& health);

  const common::QueueConfig config_;
  const std::shared_ptr<QueueStatus> status_;
  const std::shared_ptr<spdlog::logger> log_;
  TaskQueue queue_;
  Recovery recovery_;
  std::uint64_t retries_counted_ = 0;
  const char* step_ = "";
  SteadyTime next_measuring_;
  std::set<std::string> shown_types_;   // those with a label of their own
  std::optional<std::string> harmful_;  // who was warned of
};

}  // namespace leasehold::worker
