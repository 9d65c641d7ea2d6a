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
                                   std::shared_ptr<spdlog::logger> logger);

/// Throws InvalidArgument if the link would not accept it.
void check_timeout(const char* what, std::chrono::milliseconds value);

}  // namespace leasehold::inline v0::redis
