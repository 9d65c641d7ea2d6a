#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace leasehold::cli {

/// The text without anything that a terminal would obey: control characters, and bytes that are not
/// UTF-8, become '?', line ends and tabs blanks. Everything that others wrote goes through this.
std::string printable(std::string_view text);

/// How many columns of a terminal a text takes. Wide and combining characters are known by their
/// usual ranges.
std::size_t width_of(std::string_view text);

/// At most this many columns of it; what was cut off ends with '…'.
std::string fit(const std::string& text, std::size_t columns);

/// Lines of at most this many columns, broken at blanks; lines of the text that begin with a blank
/// are left alone. Each line begins with the indentation.
std::string wrap(std::string_view text, std::size_t columns, std::size_t indentation = 0);

/// 1234567 as 1,234,567.
std::string with_commas(std::uint64_t number);

/// Like 3.2s, 5m, 2h or 3d: to be read at a glance.
std::string brief(std::chrono::milliseconds time);

/// Like 2026-11-16T14:31:06.123Z.
std::string iso_time(std::chrono::system_clock::time_point time);

/// The same back; date and time, to the second or finer, with Z or an offset. Nothing if it is
/// none, or not of the years 1678 to 2261.
std::optional<std::chrono::system_clock::time_point> parse_time(std::string_view text);

/// The word of `words` that is most like this one; empty if none is.
std::string nearest(std::string_view word, const std::string& words_separated_by_blanks);

}  // namespace leasehold::cli
