#pragma once

#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
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

/// Waits until one of these events of poll(2) happens. False if `give_up`, asked now and then, says
/// so or the deadline passes first.
bool await_event(int fd, short events, std::chrono::steady_clock::time_point deadline,
                 const std::function<bool()>& give_up);

/// Connects sockets. The name of a server is resolved anew each time. Not thread-safe.
class Connector {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Gives up at the deadline, even if the resolver hangs, and soon after `give_up` says so.
  /// Throws std::runtime_error.
  Socket connect(const RedisUri& server, Deadline deadline, const std::function<bool()>& give_up);

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

  std::vector<Address> addresses(const RedisUri& server, Deadline deadline);
  static bool is_outdated(Lookup& lookup, const RedisUri& server);
  static Answer look_up(const RedisUri& server, int flags);
  static Socket connect_to(const Address& address, Deadline deadline,
                           const std::function<bool()>& give_up);

  // One that took too long. Nobody can end it, so the next attempt waits for the same one.
  std::shared_ptr<Lookup> lookup_;
};

}  // namespace leasehold::inline v0::redis
