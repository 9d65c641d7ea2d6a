#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/config.hpp"
#include "leasehold/tasks.hpp"
#include "status.hpp"

namespace leasehold::worker {

/// What the daemon does for one queue again and again: take back expired leases, remove tasks that
/// finished long ago, and measure the state of the queue. For one thread.
class Round {
 public:
  Round(const common::QueueConfig& config, std::shared_ptr<QueueStatus> status,
        std::shared_ptr<spdlog::logger> log);

  /// Does it once. The first call opens the database, so that a file that does not exist yet is
  /// waited for like a server. Returns what was measured, or nothing if that was not due. Throws
  /// leasehold::Error; what was done before stays done and counted.
  std::optional<Measured> run();

  /// Says what went wrong in run(), and during which step.
  std::string describe(const std::exception& error) const;

 private:
  struct Done {
    std::uint64_t requeued = 0;
    std::uint64_t dead = 0;
    std::uint64_t removed = 0;
  };

  void open();
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
  std::optional<TaskQueue> queue_;  // once it could be opened
  Done done_;                       // by the present round
  std::uint64_t retries_counted_ = 0;
  const char* step_ = "";
  SteadyTime next_measuring_;
  std::set<std::string> shown_types_;   // those that have a label of their own
  std::optional<std::string> harmful_;  // the long transaction that was warned of
};

}  // namespace leasehold::worker
