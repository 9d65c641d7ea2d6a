#include "common/values.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "common/secrets.hpp"
#include "leasehold/errors.hpp"

namespace leasehold::common {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

struct Unit {
  std::string_view name;
  milliseconds length;
};
constexpr std::array units{Unit{"ms", 1ms}, Unit{"s", 1s}, Unit{"m", 1min}, Unit{"h", 1h},
                           Unit{"d", 24h}};

/// Nothing if the text is not a whole number, or too large for one.
std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

void refuse(std::string_view value, const std::string& allowed) {
  throw InvalidArgument("must be " + allowed + ", got " + shown(value));
}

std::optional<std::int64_t> parse_digits(std::string_view text) {
  return text.starts_with('-') ? std::nullopt : parse_integer(text);
}

std::int64_t parse_number(std::string_view text, std::int64_t least, std::int64_t most) {
  const auto number = parse_integer(text);
  if (!number || *number < least || *number > most) {
    refuse(text, std::to_string(least) + " to " + std::to_string(most));
  }
  return *number;
}

milliseconds parse_duration(std::string_view text, milliseconds least, milliseconds most,
                            std::string_view or_word) {
  const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_digits(text.substr(0, digits));
  const auto unit = std::ranges::find(units, text.substr(digits), &Unit::name);
  // The division keeps the product from overflowing.
  const bool valid = number && unit != units.end() && *number <= most / unit->length &&
                     *number * unit->length >= least;
  if (!valid) {
    std::string allowed = format_duration(least) + " to " + format_duration(most) +
                          " (written like 500ms, 5s, 2m, 1h or 7d)";
    if (!or_word.empty()) allowed += " or " + std::string(or_word);
    refuse(text, allowed);
  }
  return *number * unit->length;
}

std::string format_duration(milliseconds time) {
  const Unit* best = &units.front();
  for (const Unit& unit : units) {
    if (time != 0ms && time % unit.length == 0ms) best = &unit;
  }
  return std::to_string(time / best->length) + std::string(best->name);
}

}  // namespace leasehold::common
