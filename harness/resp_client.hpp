#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "file_descriptor.hpp"

namespace leasehold::harness {

/// What Redis answered. An error is a reply too: look at `type`.
struct RedisReply {
  enum class Type { status, error, integer, string, array, nil };

  Type type = Type::nil;
  std::string string;  ///< of a status, error or string
  std::int64_t integer = 0;
  std::vector<RedisReply> elements;

  bool is_error() const { return type == Type::error; }
  bool is_nil() const { return type == Type::nil; }
};

/// Where a Redis listens and how to get in, as in redis://user:password@host:port/database.
struct RedisAddress {
  std::string host = "127.0.0.1";
  int port = 6379;
  std::string user;
  std::string password;
  int database = 0;

  /// Throws when the text is not of that form.
  static RedisAddress parse(const std::string& uri);
};

/// A connection to Redis that shares no code with the library under test. For one thread at a time.
class RespClient {
 public:
  /// Connects, authenticates and selects the database; throws when that fails.
  explicit RespClient(const RedisAddress& address,
                      std::chrono::milliseconds timeout = std::chrono::seconds{10});

  /// From now on it waits that long.
  void set_timeout(std::chrono::milliseconds timeout);

  /// Throws when the connection breaks or no answer comes in time.
  RedisReply command(const std::vector<std::string>& words);
  /// The next message of a connection that has subscribed.
  RedisReply read();

 private:
  void expect_ok(const std::vector<std::string>& words);
  void fill();
  std::string read_line();
  std::string read_bytes(std::size_t count);

  FileDescriptor socket_;
  std::string unread_;
};

}  // namespace leasehold::harness
