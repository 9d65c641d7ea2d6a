#pragma once

#include <string>
#include <string_view>

#include "support/internal_api.hpp"

namespace leasehold::inline v0 {

/// A value as it may stand in a message: in quotes, control characters escaped, long ones cut.
LEASEHOLD_INTERNAL_API std::string in_quotes(std::string_view value);

}  // namespace leasehold::inline v0
