#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "leasehold/lock.hpp"

namespace leasehold::inline v0 {

// Each throws InvalidArgument with the value and what is allowed.

void check_lock_name(std::string_view name);
void check_lock_pattern(std::string_view pattern);
void check_lock_options(const LockOptions& options);
void check_keep_time(const char* what, std::chrono::milliseconds value);
void check_sqlite_timeout(std::chrono::milliseconds value);

/// The metadata as JSON; empty if there is none.
std::string metadata_json(const LockOptions& options);

}  // namespace leasehold::inline v0
