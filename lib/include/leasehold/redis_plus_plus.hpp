#pragma once

#include <memory>

#include "leasehold/export.hpp"
#include "leasehold/redis_link.hpp"

namespace sw::redis {
class Redis;
class RedisCluster;
}  // namespace sw::redis

namespace leasehold::inline v0 {

/// Lets Leasehold use a Redis of redis-plus-plus that the application already has: to one server,
/// or made from a Sentinel. Needs the CMake target leasehold::redis_plus_plus.
///
/// - Commands use the connections of its pool, and wait for a free one as long as the pool says.
///   Heartbeats have a connection of their own with the same options, and so have notifications.
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

/// The same for a cluster. Commands for several nodes are sent to one node after the other.
/// RedisReply::replicated is always false. Heartbeats have connections of their own, too, if the
/// cluster can be reached now. A script that a node does not have cannot be loaded into a slot that
/// is being moved to that node: such a call fails with NOSCRIPT until the move is complete.
LEASEHOLD_API std::shared_ptr<RedisLink> lend_redis(std::shared_ptr<sw::redis::RedisCluster> redis);

}  // namespace leasehold::inline v0
