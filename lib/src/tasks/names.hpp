#pragma once

#include <string_view>

#include "leasehold/task.hpp"

namespace leasehold::inline v0 {

/// The state that a store calls so. The other direction is to_string().
TaskState to_state(std::string_view name);

}  // namespace leasehold::inline v0
