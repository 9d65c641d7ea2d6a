#include "support/quote.hpp"

#include <cstdio>

namespace leasehold::inline v0 {

std::string in_quotes(std::string_view value) {
  constexpr std::size_t longest = 64;
  std::string out = "\"";
  for (const char c : value.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      char escape[5];
      std::snprintf(escape, sizeof escape, "\\x%02x", byte);
      out += escape;
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
