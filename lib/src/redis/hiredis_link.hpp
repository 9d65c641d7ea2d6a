#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "leasehold/redis_link.hpp"

namespace spdlog {
class logger;
}

namespace leasehold::inline v0::redis {

/// As the public connect_redis(). Logs what no caller would be told.
std::shared_ptr<RedisLink> connect(std::string_view uri, const RedisOptions& options,
                                   const std::shared_ptr<spdlog::logger>& logger);

/// Two links to the same server or cluster: they move together when another one becomes the
/// primary.
struct LinkPair {
  std::shared_ptr<RedisLink> commands;
  std::shared_ptr<RedisLink> renewals;  ///< one connection, which slow commands cannot delay
};
LinkPair connect_pair(std::string_view uri, const RedisOptions& options,
                      const std::shared_ptr<spdlog::logger>& logger);

/// Throws InvalidArgument if the link would not accept it.
void check_timeout(const char* what, std::chrono::milliseconds value);

}  // namespace leasehold::inline v0::redis
