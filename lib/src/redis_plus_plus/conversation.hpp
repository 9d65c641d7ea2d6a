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

  /// Sends the commands together, on one connection, and returns their replies. Throws what
  /// RedisLink::pipeline() throws, InvalidArgument if the connection has no time-outs, and
  /// Outdated. If `server` is given, it gets the address of the server once there is a connection.
  std::vector<RedisReply> run(Pipeline& pipeline, std::span<const RedisCommand> commands,
                              const RedisCall& call, std::string* server = nullptr);

  /// Sends one command on this connection, and returns its reply. Throws as run() does, but
  /// sw::redis::Error if nothing was sent.
  RedisReply run_one(Connection& connection, const RedisCommand& command);

  /// Of the connection that was learned last. Nothing if there was none yet.
  std::optional<ConnectionOptions> options() const;

  /// The address that was learned last.
  std::string where() const;

 private:
  using Key = std::pair<std::chrono::steady_clock::time_point, int>;
  using Stamp = std::array<char, RedisLink::connected_at.size()>;
  struct Known {
    Stamp connected_at = RedisLink::connected_at;
    bool is_replica = false;
    bool outdated = false;
  };

  static Key key_of(const Connection& connection);
  Known get_to_know(Connection& connection);
  void look_at(const Key& key, const RedisReply& reply);
  long long replicas_needed(Connection& connection, const RedisReplicas& replicas);
  void check_role(const Known& known, std::span<const RedisCommand> commands, const Key& key);

  mutable ThreadMutex mutex_;
  std::map<Key, Known> known_ LEASEHOLD_GUARDED_BY(mutex_);
  std::optional<ConnectionOptions> options_ LEASEHOLD_GUARDED_BY(mutex_);
  struct Replicas {
    int port = 0;
    long long connected = 0;
    std::chrono::steady_clock::time_point counted;
  };
  Replicas replicas_ LEASEHOLD_GUARDED_BY(mutex_);
};

/// The address of the server, without a password.
std::string address_of(const sw::redis::ConnectionOptions& options);

/// Connects if that is possible now. Throws InvalidArgument if the link may not be used.
void try_to_connect(RedisLink& link);

}  // namespace leasehold::inline v0::redis_plus_plus
