#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace leasehold::cli {

/// The text without anything that a terminal would obey: control characters and invalid UTF-8
/// become '?', line ends and tabs become blanks. Everything that others wrote goes through this.
std::string printable(std::string_view text);

/// How many columns of a terminal a text takes. Wide and combining characters are recognised by
/// their usual ranges.
std::size_t width_of(std::string_view text);

/// Cuts a text to at most this many columns. A text that was cut ends with '…'.
std::string fit(const std::string& text, std::size_t columns);

/// Breaks a text at blanks into lines of at most this many columns, each indented. Lines of the
/// text that begin with a blank are not broken.
std::string wrap(std::string_view text, std::size_t columns, std::size_t indentation = 0);

/// 1234567 as 1,234,567.
std::string with_commas(std::uint64_t number);

/// A time to be read at a glance: 3.2s, 5m, 2h or 3d.
std::string brief(std::chrono::milliseconds time);

std::string joined(const std::vector<std::string>& words, const std::string& between);

/// The word that is most similar to this one; empty if none is similar.
std::string nearest(std::string_view word, const std::vector<std::string>& words);

}  // namespace leasehold::cli
