#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "leasehold/task.hpp"

namespace leasehold::cli {

inline constexpr std::int64_t largest_id = std::numeric_limits<std::int64_t>::max();

// The values of flags about tasks. Both throw InvalidArgument.

/// The value of --state, which must be one of the allowed ones.
TaskState parse_state(const std::string& text, std::span<const TaskState> allowed);
TaskId parse_id(const std::string& text);

}  // namespace leasehold::cli
