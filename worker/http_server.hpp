#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "config.hpp"
#include "status.hpp"

namespace httplib {
class Server;
}

namespace leasehold::worker {

/// The endpoints: /metrics, /healthz, /readyz and /status. They show what is on the board and ask
/// no server, so they answer whatever the servers do.
class HttpServer {
 public:
  /// Listens when it returns. Throws std::runtime_error if it can not.
  HttpServer(const Listen& where, const Board& board);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// With the port that was found.
  std::string address() const;

  /// No more requests. Does not wait for those under way.
  void request_stop();
  bool finished() const { return finished_; }

 private:
  void route(const Board& board);

  const Listen wanted_;
  int port_ = 0;
  std::unique_ptr<httplib::Server> server_;
  std::atomic<bool> finished_{false};
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace leasehold::worker
