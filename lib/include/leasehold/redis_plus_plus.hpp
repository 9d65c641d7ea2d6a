#pragma once

#include <memory>

#include "leasehold/export.hpp"
#include "leasehold/redis_link.hpp"

namespace sw::redis {
class Redis;
class RedisCluster;
}  // namespace sw::redis

namespace leasehold::inline v0 {

/// Lets Leasehold use the application's own redis-plus-plus client: an sw::redis::Redis that is
/// connected to one server or was created from a Sentinel. Needs the CMake target
/// leasehold::redis_plus_plus.
///
/// - Commands use the connections of its pool, and wait for a free one as long as the pool says
///   (ConnectionPoolOptions::wait_timeout, which is without limit unless you set it). Heartbeats
///   have a connection of their own with the same options, and so have notifications.
/// - redis-plus-plus alone decides how long to wait for replies. `socket_timeout`, and for TCP
///   `connect_timeout`, must therefore be set in its ConnectionOptions; RedisCall::timeout and
///   RedisOptions::command_timeout do not shorten them.
/// - Any failure after the connection was made is OutcomeUnknown, because redis-plus-plus does not
///   say whether the command was sent. That includes a connection that broke while it was idle.
///
/// Tries to connect, to check the time-outs. If the server cannot be reached now, the first command
/// that reaches it checks them. Throws InvalidArgument if a time-out is missing, or if the Redis is
/// bound to a single connection.
LEASEHOLD_API std::shared_ptr<RedisLink> lend_redis(std::shared_ptr<sw::redis::Redis> redis);

/// The same for a cluster. Leasehold takes the options of `cluster` (address, credentials, TLS,
/// time-outs) and makes connections of its own with redis-plus-plus, up to eight to each primary:
/// RedisCluster repeats commands by itself, which must not happen to commands for locks. `cluster`
/// is not needed afterwards.
///
/// Throws InvalidArgument if a time-out is missing, and Unavailable or ServerRefused if `cluster`
/// has no working connection now.
LEASEHOLD_API std::shared_ptr<RedisLink> lend_redis(sw::redis::RedisCluster& cluster);

}  // namespace leasehold::inline v0
