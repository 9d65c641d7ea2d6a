#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "leasehold/redis_link.hpp"

namespace spdlog {
class logger;
}

namespace leasehold::inline v0 {

/// As the public one. What nobody else would be told of is logged.
std::shared_ptr<RedisLink> connect_redis(std::string_view uri, const RedisOptions& options,
                                         std::shared_ptr<spdlog::logger> logger);

/// Throws InvalidArgument if the link would not take it.
void check_redis_timeout(const char* what, std::chrono::milliseconds value);

}  // namespace leasehold::inline v0
