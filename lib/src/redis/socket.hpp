#pragma once

#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "redis/redis_uri.hpp"

namespace leasehold::inline v0::redis {

/// The connection broke or fell silent; what was sent may have been executed.
struct Broken {
  std::string why;
};

/// A file descriptor that is closed with its owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) noexcept : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  int fd() const noexcept { return fd_; }
  bool open() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Connects sockets to one server. Its name is resolved anew each time. Not thread-safe.
class Connector {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  explicit Connector(RedisUri uri) : uri_(std::move(uri)) {}

  /// Gives up at the deadline, even if the resolver hangs. Throws std::runtime_error.
  Socket connect(Deadline deadline);

  struct Address {
    sockaddr_storage bytes;
    socklen_t size;
  };

 private:
  struct Answer {
    int error = 0;  ///< of getaddrinfo
    std::vector<Address> found;
  };
  struct Lookup;

  std::vector<Address> addresses(Deadline deadline);
  static bool has_answer(Lookup& lookup);
  static Answer look_up(const RedisUri& uri, int flags);
  static Socket connect_to(const Address& address, Deadline deadline);

  const RedisUri uri_;
  // One that took too long. Nobody can end it, so the next attempt waits for the same one.
  std::shared_ptr<Lookup> lookup_;
};

}  // namespace leasehold::inline v0::redis
