#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "leasehold/lock.hpp"
#include "leasehold/redis_link.hpp"

namespace leasehold::inline v0 {

// Each throws InvalidArgument, which says what is allowed and what it got.

void check_lock_name(std::string_view name);
void check_lock_pattern(std::string_view pattern);
void check_lock_options(const LockOptions& options);
void check_keep_time(const char* what, std::chrono::milliseconds value);
void check_sqlite_timeout(std::chrono::milliseconds value);
void check_replicas(const RedisReplicas& replicas, std::chrono::milliseconds command_timeout);

/// The metadata as JSON, or empty if there is none. Throws InvalidArgument as above.
std::string metadata_json(const LockOptions& options);

}  // namespace leasehold::inline v0
