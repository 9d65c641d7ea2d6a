#pragma once

#include <atomic>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "leasehold/lock_client.hpp"
#include "log.hpp"
#include "outage.hpp"
#include "status.hpp"

namespace leasehold::worker {

/// Counts the locks in a Redis from time to time, on its own thread and page by page (SCAN), so
/// that Redis is never blocked. The destructor waits for the end of the current page.
class LockScan {
 public:
  LockScan(const common::Config& config, std::shared_ptr<spdlog::logger> log);

  const std::shared_ptr<RedisStatus>& status() const { return status_; }
  bool same_as(const common::Config& config) const {
    return config.redis == uri_ && config.lock_scan_interval == interval_;
  }

  void request_stop() { thread_.request_stop(); }
  bool finished() const { return finished_; }

 private:
  void run(const std::stop_token& stop);
  void scan(const std::stop_token& stop);

  const std::string uri_;
  const std::chrono::milliseconds interval_;
  const std::shared_ptr<spdlog::logger> log_;
  const std::shared_ptr<RedisStatus> status_;
  LockClient client_;
  Outage outage_{{.failed = "lock scan failed, will keep trying",
                  .still_fails = "lock scan still fails",
                  .works_again = "lock scan works again"}};
  std::atomic<bool> finished_{false};
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace leasehold::worker
