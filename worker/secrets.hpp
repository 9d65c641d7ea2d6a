#pragma once

#include <string>
#include <string_view>

#include "support/quote.hpp"

namespace leasehold::worker {

/// A value for a message, in quotes; not if it looks as if a password were in it, for somebody may
/// have put a URI in the wrong place.
inline std::string shown(std::string_view value) {
  const bool secret = value.find('@') != value.npos || value.find("password") != value.npos;
  return secret ? "(not shown, it may contain a password)" : in_quotes(value);
}

}  // namespace leasehold::worker
