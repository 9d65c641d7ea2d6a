#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "redis_endpoint.hpp"
#include "redis_server.hpp"

// What RedisSentinels and RedisCluster have in common: servers that replicate each other.

namespace leasehold::harness {

/// The options for one of several servers that replicate each other, with lines of configuration
/// for that before those of `options`.
RedisServerOptions replicated(const RedisServerOptions& options, std::vector<std::string> lines);

/// Empty when `replica` is connected to `primary` and has all its data; otherwise what is missing.
std::string missing_replication(const RedisServer& replica, const RedisServer& primary);

/// Runs a command that must not fail: throws when the reply is an error.
RedisReply expect_success(const RedisEndpoint& redis, const std::vector<std::string>& words);

/// 127.0.0.1:PORT,127.0.0.1:PORT,...
std::string hosts_of(const std::vector<const RedisEndpoint*>& endpoints);

/// The value of a line `name:value` of what INFO or CLUSTER INFO returns; throws when there is
/// none.
std::string info_field(const RedisReply& info, std::string_view name);

}  // namespace leasehold::harness
