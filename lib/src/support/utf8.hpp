#pragma once

#include <string>
#include <string_view>

#include "support/internal_api.hpp"

namespace leasehold::inline v0 {

LEASEHOLD_INTERNAL_API bool is_utf8(std::string_view text) noexcept;

/// The text with each byte that is not part of UTF-8, and each NUL, replaced by '?'.
LEASEHOLD_INTERNAL_API std::string replace_invalid_utf8(std::string_view text);

/// The beginning of a UTF-8 text: at most `longest` bytes, and no part of a character.
LEASEHOLD_INTERNAL_API std::string utf8_prefix(std::string text, std::size_t longest);

}  // namespace leasehold::inline v0
