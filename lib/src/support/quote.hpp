#pragma once

#include <string>
#include <string_view>

#include "support/internal_api.hpp"

namespace leasehold::inline v0 {

/// A value as messages show it: in quotes, with control characters escaped, and cut if it is long.
LEASEHOLD_INTERNAL_API std::string in_quotes(std::string_view value);

}  // namespace leasehold::inline v0
