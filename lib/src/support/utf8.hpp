#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "support/internal_api.hpp"

namespace leasehold::inline v0 {

LEASEHOLD_INTERNAL_API bool is_utf8(std::string_view text) noexcept;

/// Whether a control character that has two bytes in UTF-8 begins at `at`: U+0080 to U+009F. CSI
/// and NEL are among them.
inline bool is_long_control(std::string_view text, std::size_t at) noexcept {
  if (text[at] != '\xc2' || at + 1 >= text.size()) return false;
  const auto second = static_cast<unsigned char>(text[at + 1]);
  return second >= 0x80 && second <= 0x9f;
}

/// The text with each byte that is not part of UTF-8, and each NUL, replaced by '?'.
LEASEHOLD_INTERNAL_API std::string replace_invalid_utf8(std::string_view text);

/// The beginning of a UTF-8 text: at most `longest` bytes, and no part of a character.
LEASEHOLD_INTERNAL_API std::string utf8_prefix(std::string text, std::size_t longest);

}  // namespace leasehold::inline v0
