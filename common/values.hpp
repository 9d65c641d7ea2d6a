#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace leasehold::common {

// Numbers and durations as people write them in flags, variables and files. What throws, throws
// InvalidArgument with the text `must be …, got "value"`: the caller puts the name before it.

/// Throws InvalidArgument: `must be {allowed}, got "{value}"`.
[[noreturn]] void refuse(std::string_view value, const std::string& allowed);

/// Nothing if the text has anything but digits, or too many of them.
std::optional<std::int64_t> parse_digits(std::string_view text);

std::int64_t parse_number(std::string_view text, std::int64_t least, std::int64_t most);

/// A time like 500ms, 5s, 2m, 1h or 7d. `or_word` is a word that the caller accepts as well; it
/// becomes part of the message.
std::chrono::milliseconds parse_duration(std::string_view text, std::chrono::milliseconds least,
                                         std::chrono::milliseconds most,
                                         std::string_view or_word = {});

/// The shortest text that parse_duration() reads as this time.
std::string format_duration(std::chrono::milliseconds time);

/// The longest time that a flag or setting can name.
inline constexpr std::chrono::milliseconds ten_years = std::chrono::hours{24 * 3653};

}  // namespace leasehold::common
