#include "flag_values.hpp"

#include <algorithm>

#include "common/iso_time.hpp"
#include "leasehold/errors.hpp"

namespace leasehold::cli {
namespace {

/// Puts the name of the flag before the message of a refusal.
template <typename Parse>
auto naming(const std::string& flag, Parse parse) {
  try {
    return parse();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(flag + " " + error.what());
  }
}

/// "a, b or c".
std::string alternatives(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace

std::int64_t parse_number(const std::string& flag, const std::string& text, std::int64_t least,
                          std::int64_t most) {
  return naming(flag, [&] { return common::parse_number(text, least, most); });
}

std::chrono::milliseconds parse_duration(const std::string& flag, const std::string& text,
                                         std::chrono::milliseconds least,
                                         std::chrono::milliseconds most) {
  return naming(flag, [&] { return common::parse_duration(text, least, most); });
}

std::chrono::system_clock::time_point parse_time(const std::string& flag, const std::string& text) {
  return naming(flag, [&] {
    const auto time = common::parse_iso_time(text);
    if (!time) {
      common::refuse(text, "a time like 2026-11-16T14:31:06Z, not after the year 2261");
    }
    return *time;
  });
}

std::size_t parse_word(const std::string& flag, const std::string& text,
                       const std::vector<std::string>& allowed) {
  return naming(flag, [&] {
    const auto found = std::ranges::find(allowed, text);
    if (found == allowed.end()) common::refuse(text, alternatives(allowed));
    return static_cast<std::size_t>(found - allowed.begin());
  });
}

}  // namespace leasehold::cli
