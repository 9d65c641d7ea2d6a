#pragma once

#include <sw/redis++/redis++.h>

#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "leasehold/redis_link.hpp"
#include "redis/confirmation.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0::redis_plus_plus {

/// Thrown before anything was sent: this connection leads to a server that is no longer the
/// primary. The connection is closed; try again with another one.
struct Outdated {};

/// Runs commands on connections of redis-plus-plus, and remembers what it has learned about each of
/// them. Every member may be called from any thread.
class Conversation {
 public:
  using Pipeline = sw::redis::Pipeline;
  using Connection = sw::redis::Connection;
  using ConnectionOptions = sw::redis::ConnectionOptions;

  /// Without options, those of its connections are learned.
  explicit Conversation(std::optional<ConnectionOptions> options = {})
      : options_(std::move(options)) {}

  /// Sends the commands together, on one connection, and returns their replies. Throws what
  /// RedisLink::pipeline() throws, InvalidArgument if the connection has no time-outs, and
  /// Outdated.
  std::vector<RedisReply> run(Pipeline& pipeline, std::span<const RedisCommand> commands,
                              const RedisCall& call);

  /// Of the latest connection. Nothing if there was none yet, and none were given.
  std::optional<ConnectionOptions> options() const;

  /// The address in these options.
  std::string where() const;

 private:
  using Key = std::pair<std::chrono::steady_clock::time_point, int>;
  using Stamp = std::array<char, RedisLink::connected_at.size()>;
  struct Known {
    Stamp connected_at = RedisLink::connected_at;
    bool is_replica = false;
    bool outdated = false;
    redis::ReplicaCount replicas;
  };

  static Key key_of(const Connection& connection);
  Known get_to_know(Connection& connection);
  void look_at(const Key& key, const RedisReply& reply);
  void check_role(const Known& known, std::span<const RedisCommand> commands, const Key& key);

  mutable ThreadMutex mutex_;
  std::map<Key, Known> known_ LEASEHOLD_GUARDED_BY(mutex_);
  std::optional<ConnectionOptions> options_ LEASEHOLD_GUARDED_BY(mutex_);
};

/// The address of the server, without a password.
std::string address_of(const sw::redis::ConnectionOptions& options);

}  // namespace leasehold::inline v0::redis_plus_plus
