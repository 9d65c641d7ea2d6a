#pragma once

#include <memory>
#include <vector>

#include "common/config.hpp"
#include "http_server.hpp"
#include "lock_scan.hpp"
#include "log.hpp"
#include "queue_runner.hpp"
#include "status.hpp"

namespace leasehold::worker {

/// Everything that runs: a runner for each queue, the scan of the locks, and the endpoints. Used by
/// the main thread only.
class Daemon {
 public:
  /// Throws std::runtime_error if it cannot listen.
  Daemon(common::Config config, Log& log);

  /// Continues with another configuration. What has not changed keeps running undisturbed. Throws
  /// std::runtime_error if it cannot listen; then nothing has changed.
  void reload(common::Config config);

  /// Counts a reload that was refused.
  void reload_refused() { status_.reloaded(false); }

  /// Asks everything to end; does not wait.
  void request_stop();
  bool finished() const;

  /// Logs the settings in effect, on the level debug.
  void log_settings() const;

  const common::Config& config() const { return config_; }
  /// The address of the endpoints; "off" if there are none.
  std::string address() const { return http_ ? http_->address() : "off"; }

 private:
  void start(const common::Config& config);
  void forget_finished();

  common::Config config_;
  Log& log_;
  DaemonStatus status_;
  std::vector<std::unique_ptr<QueueRunner>> runners_;
  std::unique_ptr<LockScan> lock_scan_;
  std::unique_ptr<HttpServer> http_;
  // From earlier configurations; they are ending.
  std::vector<std::unique_ptr<QueueRunner>> old_runners_;
  std::vector<std::unique_ptr<LockScan>> old_lock_scans_;
  std::vector<std::unique_ptr<HttpServer>> old_http_;
};

}  // namespace leasehold::worker
