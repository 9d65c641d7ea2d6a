#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/redis_link.hpp"

namespace leasehold::inline v0::redis {

/// What is allowed, for messages.
inline constexpr std::string_view redis_uri_forms =
    "redis://[user:password@]host[:port][/db], redis+unix:///path[?db=n], "
    "redis+sentinel://[user:password@]host[:port][,host[:port]...]/service[/db] or "
    "redis+cluster://[user:password@]host[:port][,host[:port]...]; with TLS rediss://, "
    "rediss+sentinel:// or rediss+cluster://";

struct RedisUri {
  enum class Topology { server, sentinel, cluster };

  struct Address {
    std::string host;
    int port = 0;
    bool operator==(const Address&) const = default;
  };

  Topology topology = Topology::server;
  std::string host;  ///< of one server; empty for a Unix socket and for the other topologies
  int port = 6379;
  std::string socket;          ///< path of a Unix socket, or empty
  std::vector<Address> seeds;  ///< the sentinels, or some nodes of the cluster
  std::string service;         ///< what the sentinels call the primary
  std::string user;
  std::string password;
  std::string sentinel_user;
  std::string sentinel_password;
  int database = 0;
  std::optional<RedisTls> tls;   ///< unless the connection is plain
  bool is_sentinel = false;      ///< the one server is a sentinel, not a Redis
  bool is_cluster_node = false;  ///< the one server is one of several

  /// What the URI says about TLS takes precedence over `tls`.
  /// Throws InvalidArgument, which names the part that is wrong and never shows a password.
  static RedisUri parse(std::string_view uri, const RedisTls& tls = {});

  /// The URI of one server of these, with the same credentials, database and TLS.
  RedisUri at(const Address& address) const;

  /// The URI of a sentinel.
  RedisUri sentinel_at(const Address& address) const;

  /// Without users, passwords and options.
  std::string display() const;
};

/// host:port, with an IPv6 address in brackets.
std::string to_text(const RedisUri::Address& address);

}  // namespace leasehold::inline v0::redis
