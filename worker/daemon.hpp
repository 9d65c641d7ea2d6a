#pragma once

#include <memory>
#include <vector>

#include "config.hpp"
#include "http_server.hpp"
#include "lock_scan.hpp"
#include "log.hpp"
#include "queue_runner.hpp"
#include "status.hpp"

namespace leasehold::worker {

/// Everything that runs: a runner for each queue, the scan of the locks, the endpoints. Used by the
/// main thread only.
class Daemon {
 public:
  /// Throws std::runtime_error if it can not listen.
  Daemon(Config config, Log& log);

  /// Goes on with another configuration. What has not changed runs on undisturbed. Throws
  /// std::runtime_error if it can not listen, and then what runs has not changed.
  void reload(Config config);

  /// Says that a reload came to nothing.
  void reload_refused() { board_.reloaded(false); }

  /// Asks everything to end; does not wait.
  void request_stop();
  bool finished() const;

  const Config& config() const { return config_; }
  /// Of the endpoints; "off" if there are none.
  std::string address() const { return http_ ? http_->address() : "off"; }

 private:
  void start(const Config& config);
  void let_go();

  Config config_;
  Log& log_;
  Board board_;
  std::vector<std::unique_ptr<QueueRunner>> runners_;
  std::unique_ptr<LockScan> lock_scan_;
  std::unique_ptr<HttpServer> http_;
  // Of earlier configurations, on their way out.
  std::vector<std::unique_ptr<QueueRunner>> old_runners_;
  std::vector<std::unique_ptr<LockScan>> old_lock_scans_;
  std::vector<std::unique_ptr<HttpServer>> old_http_;
};

}  // namespace leasehold::worker
