#include "support/utf8.hpp"

#include <cstddef>

namespace leasehold::inline v0 {
namespace {

bool is_continuation(std::string_view text, std::size_t at) noexcept {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
}

/// How many bytes the character that begins at `at` has; 0 if no valid one begins there.
std::size_t length_at(std::string_view text, std::size_t at) noexcept {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return 1;
  const auto second = at + 1 < text.size() ? static_cast<unsigned char>(text[at + 1]) : 0;
  if (!is_continuation(text, at + 1)) return 0;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (!is_continuation(text, at + 2)) return 0;
  // Overlong forms of shorter characters and halves of UTF-16 pairs are invalid.
  if (first == 0xe0 && second < 0xa0) return 0;
  if (first == 0xed && second > 0x9f) return 0;
  if (first >= 0xe0 && first <= 0xef) return 3;
  if (!is_continuation(text, at + 3)) return 0;
  if (first == 0xf0 && second < 0x90) return 0;
  if (first == 0xf4 && second > 0x8f) return 0;
  return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = length_at(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = text[i] == '\0' ? 0 : length_at(text, i);
    if (length == 0) {
      out += '?';
      ++i;
    } else {
      out += text.substr(i, length);
      i += length;
    }
  }
  return out;
}

std::string utf8_prefix(std::string text, std::size_t longest) {
  if (text.size() <= longest) return text;
  std::size_t end = longest;
  while (end > 0 && is_continuation(text, end)) --end;
  text.resize(end);
  return text;
}

}  // namespace leasehold::inline v0
