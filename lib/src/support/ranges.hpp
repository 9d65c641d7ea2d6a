#pragma once

#include <chrono>
#include <concepts>
#include <string>

#include "leasehold/errors.hpp"

namespace leasehold::inline v0 {

/// A time as people write it: "5 ms", "90 s", "24 h", "365 days". Exact: it uses the largest unit
/// of which the time is a multiple.
inline std::string in_words(std::chrono::milliseconds time) {
  using namespace std::chrono;
  const auto in = [&](auto unit, const char* name) {
    return std::to_string(time / unit) + " " + name;
  };
  const auto is_multiple_of = [&](milliseconds unit) { return time % unit == milliseconds{0}; };
  if (time == milliseconds{0}) return "0 ms";
  if (is_multiple_of(hours{24}) && time > hours{24}) return in(hours{24}, "days");
  if (is_multiple_of(hours{1})) return in(hours{1}, "h");
  if (is_multiple_of(minutes{1})) return in(minutes{1}, "min");
  if (is_multiple_of(seconds{1})) return in(seconds{1}, "s");
  return in(milliseconds{1}, "ms");
}

template <std::integral Number>
std::string in_words(Number number) {
  return std::to_string(number);
}

/// Without trailing zeros.
inline std::string in_words(double number) {
  std::string text = std::to_string(number);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// Throws InvalidArgument unless `least <= value <= most`.
template <typename Value>
void check_range(const char* what, Value value, Value least, Value most) {
  if (value >= least && value <= most) return;
  throw InvalidArgument(std::string(what) + " must be " + in_words(least) + " to " +
                        in_words(most) + ", got " + in_words(value));
}

}  // namespace leasehold::inline v0
