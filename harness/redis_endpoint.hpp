#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "resp_client.hpp"

namespace leasehold::harness {

/// A Redis to test with and to inspect. Thread-safe.
class RedisEndpoint {
 public:
  explicit RedisEndpoint(RedisAddress address);
  virtual ~RedisEndpoint() = default;
  RedisEndpoint(const RedisEndpoint&) = delete;
  RedisEndpoint& operator=(const RedisEndpoint&) = delete;

  /// redis://127.0.0.1:PORT, with the password when there is one.
  virtual std::string uri() const { return uri_through(address_.port); }
  /// The same with another port: that of a FaultProxy in front of it.
  std::string uri_through(int port) const;
  const RedisAddress& address() const { return address_; }
  int port() const { return address_.port; }

  /// Runs a command on a connection of its own, which is opened again when it has broken.
  /// An error reply is returned; throws when there is no reply.
  virtual RedisReply command(const std::vector<std::string>& words) const;
  /// The keys that match, sorted.
  std::vector<std::string> keys(const std::string& pattern) const;

 private:
  RedisAddress address_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<RespClient> client_;
};

}  // namespace leasehold::harness
