#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "redis_endpoint.hpp"
#include "redis_process.hpp"
#include "redis_server.hpp"

namespace leasehold::harness {

struct RedisSentinelsOptions {
  RedisServerOptions servers;         ///< of each server; replicas log in with the same password
  std::string service = "leasehold";  ///< the name by which clients ask for the primary
  std::string sentinel_password;      ///< empty: sentinels ask for none
  /// How long a server does not answer before a sentinel considers it down. Short ones make
  /// failovers quick, but on a busy machine also cause some that no test asked for.
  std::chrono::milliseconds down_after{1000};
  /// A failover that is stuck is given up after this time, and none begins by itself within twice
  /// this time of the last one.
  std::chrono::milliseconds failover_timeout{3000};
};

/// One of the sentinels. It keeps what it knows in its configuration file, so that start() after
/// kill() continues where it was. One that was paused for more than 2 s takes part in no failover
/// for the next 30 s (Redis calls that TILT).
class RedisSentinel : public RedisProcess {
 public:
  struct Options {
    std::string password;
    std::vector<std::string> config_lines;
  };

  RedisSentinel(FreePort port, const Options& options);
};

/// A primary, two replicas and three sentinels that watch them and replace the primary when two of
/// them find it down. The constructor returns when a failover would succeed.
///
/// As a RedisEndpoint it is the primary of the moment; address() and port() are those of server(0).
/// Servers and sentinels can be killed, paused and started again one by one. Without persistence,
/// which is the default, a primary that starts again before it was replaced is empty, and so are
/// its replicas then. A sentinel that gives a server another role also closes the connections of
/// its clients, so that command() may throw at that moment. Apart from uri(), command(), keys() and
/// primary(), for one thread at a time.
class RedisSentinels final : public RedisEndpoint {
 public:
  static constexpr int server_count = 3;
  static constexpr int sentinel_count = 3;

  explicit RedisSentinels(const RedisSentinelsOptions& options = {});
  ~RedisSentinels() override;

  /// redis+sentinel://SENTINEL,SENTINEL,SENTINEL/SERVICE, with the servers' password in front and
  /// the sentinels' as ?sentinel_password=, when there are any.
  std::string uri() const override;
  /// Runs on primary().
  RedisReply command(const std::vector<std::string>& words) const override;

  /// server(0) is the primary at first.
  RedisServer& server(int i) const { return *servers_.at(static_cast<std::size_t>(i)); }
  RedisSentinel& sentinel(int i) const { return *sentinels_.at(static_cast<std::size_t>(i)); }

  /// The primary that the sentinels name; when they disagree, the one named last. It may be down.
  /// Throws when no sentinel answers.
  RedisServer& primary() const;

  /// Lets the sentinels replace a primary that is in order, and returns at once. They turn the
  /// former primary into a replica about 10 s after the failover; until then, it accepts writes.
  void fail_over();
  /// Waits until all sentinels that are up name the same primary, not the one at this port, and
  /// have finished the failover. Returns the new primary; throws after two minutes.
  RedisServer& await_primary_other_than(int port);
  /// Waits for the state that the constructor leaves, after failures: everything runs, the replicas
  /// are in sync, and the sentinels know it. Throws after two minutes.
  void await_ready();

 private:
  using Servers = std::vector<std::unique_ptr<RedisServer>>;

  RedisSentinels(Servers servers, const RedisSentinelsOptions& options);
  static Servers start_servers(const RedisServerOptions& options);
  void start_sentinels();
  RedisServer& server_at(const std::string& port) const;
  std::string missing_in_servers() const;
  std::string missing_in(const RedisSentinel& sentinel) const;

  const RedisSentinelsOptions options_;
  const Servers servers_;
  std::vector<std::unique_ptr<RedisSentinel>> sentinels_;
};

}  // namespace leasehold::harness
