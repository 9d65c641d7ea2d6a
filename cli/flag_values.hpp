#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/values.hpp"

namespace leasehold::cli {

// All flags are read as text and parsed here, so that a password in the wrong place does not become
// part of a message. Each function throws InvalidArgument: `{flag} must be …, got "value"`.

std::int64_t parse_number(const std::string& flag, const std::string& text, std::int64_t least,
                          std::int64_t most);
std::chrono::milliseconds parse_duration(const std::string& flag, const std::string& text,
                                         std::chrono::milliseconds least,
                                         std::chrono::milliseconds most);
/// A point in time, like 2026-11-16T14:31:06Z.
std::chrono::system_clock::time_point parse_time(const std::string& flag, const std::string& text);
/// The place of the text among the words that are allowed.
std::size_t parse_word(const std::string& flag, const std::string& text,
                       const std::vector<std::string>& allowed);

using common::ten_years;

}  // namespace leasehold::cli
