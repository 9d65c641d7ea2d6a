#include "redis/cluster_link.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "leasehold/errors.hpp"
#include "leasehold/redis_plus_plus.hpp"
#include "redis_plus_plus/conversation.hpp"
#include "redis_plus_plus/single_link.hpp"
#include "support/default_logger.hpp"

namespace leasehold::inline v0 {
namespace redis_plus_plus {
namespace {

using redis::ClusterAccess;
using sw::redis::ConnectionOptions;

constexpr std::size_t connections_for_commands = 8;

/// Of one of its connections.
ConnectionOptions options_of(sw::redis::RedisCluster& cluster) {
  const std::array<std::string_view, 1> ping{"PING"};
  const RedisCommand command{ping};
  Conversation conversation;
  for (;;) {
    try {
      auto pipeline = cluster.pipeline("any key", false);
      conversation.run(pipeline, {&command, 1}, {});
      return conversation.options().value();
    } catch (const Outdated&) {
      // Each connection is outdated once.
    } catch (const sw::redis::Error& error) {
      throw Unavailable(std::string("lend_redis: ") + error.what());
    }
  }
}

std::shared_ptr<RedisLink> connect(ConnectionOptions options, const ClusterAccess::Address& node,
                                   ClusterAccess::Use use) {
  options.host = node.host;
  options.port = node.port;
  if (use == ClusterAccess::Use::questions) {
    options.connect_timeout = std::min(options.connect_timeout, redis::longest_question);
    options.socket_timeout = std::min(options.socket_timeout, redis::longest_question);
  }
  sw::redis::ConnectionPoolOptions pool;
  pool.size = use == ClusterAccess::Use::commands ? connections_for_commands : 1;
  pool.wait_timeout = options.socket_timeout;
  return link_to(std::make_shared<sw::redis::Redis>(options, pool), options);
}

}  // namespace
}  // namespace redis_plus_plus

std::shared_ptr<RedisLink> lend_redis(sw::redis::RedisCluster& cluster) {
  using redis_plus_plus::connect;
  const auto options = redis_plus_plus::options_of(cluster);
  return redis::connect_cluster(
      {.where = "redis++ cluster " + redis_plus_plus::address_of(options),
       .seeds = {{options.host, options.port}},
       .connect_timeout = options.connect_timeout,
       .command_timeout = options.socket_timeout,
       .connect = [options](const auto& node, auto use) { return connect(options, node, use); }},
      default_logger());
}

}  // namespace leasehold::inline v0
