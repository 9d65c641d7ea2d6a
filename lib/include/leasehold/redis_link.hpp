#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/export.hpp"

namespace leasehold::inline v0 {

/// What Redis answered.
struct RedisReply {
  enum class Type { nil, status, error, integer, string, array };

  Type type = Type::nil;
  long long integer = 0;             ///< for Type::integer
  std::string text;                  ///< for status, error and string
  std::vector<RedisReply> elements;  ///< for array
};

/// One command and its arguments. The caller keeps the texts alive during the call.
using RedisCommand = std::span<const std::string_view>;

/// Ends with its life.
class LEASEHOLD_API RedisSubscription {
 public:
  virtual ~RedisSubscription() = default;
};

/// The way to one Redis. Implement it to lend Leasehold a client that your application already has;
/// otherwise `connect_redis()` makes one.
///
/// Thread safety: every member may be called from any thread.
class LEASEHOLD_API RedisLink {
 public:
  virtual ~RedisLink() = default;

  /// Sends the commands in one go and returns their replies in the same order. An error reply is a
  /// value (Type::error) and does not disturb its neighbours.
  ///
  /// Throws Unavailable if no command was sent, OutcomeUnknown if at least one may have been
  /// executed and its reply did not arrive within `timeout`, ServerRefused if the server turned the
  /// connection away.
  virtual std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands,
                                           std::chrono::milliseconds timeout) = 0;

  /// The same with the link's own time-out.
  virtual std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands) = 0;

  /// Subscribes to a channel. Both functions are called on a thread of the subscription, which
  /// reconnects by itself: `on_subscribed` after each time that it is (again) subscribed, as
  /// messages may have been missed before. Destroying the subscription ends it.
  ///
  /// A link that cannot subscribe returns nothing, as this one does: then waiting for a lock still
  /// works, but takes up to a second longer.
  virtual std::unique_ptr<RedisSubscription> subscribe(
      std::string /*channel*/, std::function<void(std::string_view)> /*on_message*/,
      std::function<void()> /*on_subscribed*/) {
    return nullptr;
  }

  /// Where the link leads, for messages. Never contains a password.
  virtual std::string where() const = 0;
};

struct RedisOptions {
  /// How long to wait for a connection to be made. Default 2 s.
  std::chrono::milliseconds connect_timeout{2'000};

  /// How long to wait for replies before the outcome is declared unknown. Default 1 s.
  std::chrono::milliseconds command_timeout{1'000};

  /// Connections shared by all threads. Concurrent callers are pipelined, so that one is nearly
  /// always best: more only help when a single core can no longer parse the replies. Default 1.
  std::size_t connections = 1;
};

/// Connects to `redis://[user:password@]host[:port][/db]`, `redis://:password@host` or
/// `redis+unix:///path/to/socket[?db=n]` (user and password are percent-decoded).
///
/// The connection is made by the first command, not here, and comes back by itself after a loss.
/// Throws InvalidArgument, naming the part of the URI that is wrong.
LEASEHOLD_API std::shared_ptr<RedisLink> connect_redis(std::string_view uri,
                                                       const RedisOptions& options = {});

}  // namespace leasehold::inline v0
