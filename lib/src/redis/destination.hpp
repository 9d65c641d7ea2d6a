#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "redis/redis_uri.hpp"

namespace leasehold::inline v0::redis {

class Sentinels;

/// Where the connections of a client lead. All of them share it, so that they move together when
/// another server becomes the primary. Thread-safe.
class Destination {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  Destination(RedisUri uri, std::chrono::milliseconds connect_timeout);
  ~Destination();

  const RedisUri& uri() const noexcept { return uri_; }
  std::chrono::milliseconds connect_timeout() const noexcept { return connect_timeout_; }

  /// Whether sentinels name the primary.
  bool has_sentinels() const noexcept { return sentinels_ != nullptr; }

  /// The server to connect to now. Asks the sentinels if there are any.
  /// Throws Unavailable or ServerRefused.
  RedisUri find_server(Deadline deadline);

  /// Grows whenever there may be another primary: a connection that was made before is made again.
  unsigned moves() const noexcept { return moves_.load(); }
  void move() noexcept { moves_.fetch_add(1); }

 private:
  const RedisUri uri_;
  const std::chrono::milliseconds connect_timeout_;
  std::atomic<unsigned> moves_{0};
  const std::unique_ptr<Sentinels> sentinels_;  // destroyed first: its thread calls move()
};

}  // namespace leasehold::inline v0::redis
