#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace leasehold::common {

/// A time in UTC, like 2026-11-16T14:31:06.123Z.
std::string iso_time(std::chrono::system_clock::time_point time);

/// Reads a date and a time, to the second or finer, with Z or an offset. Nothing if the text is
/// anything else, or not of the years 1678 to 2261.
std::optional<std::chrono::system_clock::time_point> parse_iso_time(std::string_view text);

}  // namespace leasehold::common
