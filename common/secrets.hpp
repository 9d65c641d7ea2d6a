#pragma once

#include <string>
#include <string_view>

#include "support/quote.hpp"

namespace leasehold::common {

/// A value for a message, in quotes. A value that may contain a password is not shown: users put
/// URIs in the wrong place.
inline std::string shown(std::string_view value) {
  const bool secret = value.find('@') != value.npos || value.find("password") != value.npos;
  return secret ? "(not shown, it may contain a password)" : in_quotes(value);
}

}  // namespace leasehold::common
