#include "support/quote.hpp"

#include <cstdio>

#include "support/utf8.hpp"

namespace leasehold::inline v0 {

std::string in_quotes(std::string_view value) {
  constexpr std::size_t longest = 64;
  std::string out = "\"";
  const std::string_view shown = value.substr(0, longest);
  const auto append_byte = [&](char c) {
    char escape[5];
    std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(c));
    out += escape;
  };
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const char c = shown[i];
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      append_byte(c);
    } else if (is_long_control(shown, i)) {
      append_byte(c);
      append_byte(shown[++i]);
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  out += '"';
  if (value.size() > longest) out += "… (" + std::to_string(value.size()) + " bytes)";
  return out;
}

}  // namespace leasehold::inline v0
