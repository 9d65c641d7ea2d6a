#pragma once

#include <cstddef>
#include <string_view>

#include "support/internal_api.hpp"

namespace leasehold::inline v0 {

/// How deep accepted JSON may be nested. Far below the limits of the servers' parsers, and of
/// functions that copy or print JSON recursively.
inline constexpr std::size_t deepest_json = 500;

/// Returns how deep arrays and objects are nested in a text, which need not be JSON. Call it before
/// any parser sees the text. It is not recursive and allocates nothing.
LEASEHOLD_INTERNAL_API std::size_t json_depth(std::string_view text) noexcept;

}  // namespace leasehold::inline v0
