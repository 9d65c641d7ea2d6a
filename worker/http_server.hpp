#pragma once

#include <spdlog/logger.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "common/config.hpp"
#include "status.hpp"

namespace httplib {
class Server;
}

namespace leasehold::worker {

/// The endpoints: /metrics, /healthz, /readyz and /status. They show the status and ask no server,
/// so they answer even if all servers hang.
class HttpServer {
 public:
  /// Listens once it returns. Logs each request, on the level debug. Throws std::runtime_error if
  /// it cannot.
  HttpServer(const common::Listen& where, const DaemonStatus& status,
             std::shared_ptr<spdlog::logger> log);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// With the actual port, even if any free one was asked for.
  std::string address() const;

  /// Accepts no more requests. Does not wait for those under way.
  void request_stop();
  bool finished() const { return finished_; }

 private:
  void route(const DaemonStatus& status);
  void bind();

  const common::Listen wanted_;
  const std::shared_ptr<spdlog::logger> log_;
  int port_ = 0;
  std::unique_ptr<httplib::Server> server_;
  std::atomic<bool> finished_{false};
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace leasehold::worker
