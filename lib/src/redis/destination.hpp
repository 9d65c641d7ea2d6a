#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "redis/redis_uri.hpp"

namespace leasehold::inline v0::redis {

class Sentinels;
class TlsContext;

/// Where the connections of a client lead. All of them share it, so that they move together when
/// another server becomes the primary. Thread-safe.
class Destination {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Reads the files that RedisUri::tls names. Throws InvalidArgument if they are of no use.
  Destination(const RedisUri& uri, std::chrono::milliseconds connect_timeout);
  Destination(RedisUri uri, std::chrono::milliseconds connect_timeout,
              std::shared_ptr<const TlsContext> tls);
  ~Destination();

  const RedisUri& uri() const noexcept { return uri_; }
  std::chrono::milliseconds connect_timeout() const noexcept { return connect_timeout_; }

  /// Null if the connections are plain.
  const std::shared_ptr<const TlsContext>& tls() const noexcept { return tls_; }

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
  const std::shared_ptr<const TlsContext> tls_;
  std::atomic<unsigned> moves_{0};
  const std::unique_ptr<Sentinels> sentinels_;  // destroyed first: its thread calls move()
};

}  // namespace leasehold::inline v0::redis
