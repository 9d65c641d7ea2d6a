#include "text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <sstream>
#include <vector>

#include "support/utf8.hpp"

namespace leasehold::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

struct Range {
  char32_t first;
  char32_t last;
};

constexpr std::array wide{
    Range{0x1100, 0x115f},   Range{0x2e80, 0x303e},   Range{0x3041, 0xa4cf},
    Range{0xac00, 0xd7a3},   Range{0xf900, 0xfaff},   Range{0xfe30, 0xfe6f},
    Range{0xff00, 0xff60},   Range{0xffe0, 0xffe6},   Range{0x1f300, 0x1f64f},
    Range{0x1f680, 0x1f6ff}, Range{0x1f900, 0x1f9ff}, Range{0x20000, 0x3fffd}};
constexpr std::array combining{Range{0x0300, 0x036f}, Range{0x200b, 0x200f}, Range{0x20d0, 0x20ff},
                               Range{0xfe00, 0xfe0f}};

template <typename Ranges>
bool is_in(const Ranges& ranges, char32_t character) {
  return std::ranges::any_of(ranges,
                             [&](Range r) { return character >= r.first && character <= r.last; });
}

std::size_t columns_of(char32_t character) {
  if (is_in(combining, character)) return 0;
  return is_in(wide, character) ? 2 : 1;
}

/// Calls `visit(character, bytes)` for each character of a UTF-8 text.
template <typename Visit>
void each_character(std::string_view text, Visit visit) {
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    char32_t character = length == 1 ? first : first & (0xffU >> (length + 1));
    const std::string_view bytes = text.substr(at, length);
    for (const char c : bytes.substr(1)) {
      character = (character << 6U) | (static_cast<unsigned char>(c) & 0x3fU);
    }
    visit(character, bytes);
    at += bytes.size();
  }
}

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string printable(std::string_view text) {
  const std::string valid = replace_invalid_utf8(text);
  std::string out;
  out.reserve(valid.size());
  each_character(valid, [&](char32_t character, std::string_view bytes) {
    if (character == '\n' || character == '\r' || character == '\t') {
      out += ' ';
    } else if (character < 0x20 || (character >= 0x7f && character < 0xa0) ||
               (character >= 0x202a && character <= 0x202e)) {  // the last: they reverse a line
      out += '?';
    } else {
      out += bytes;
    }
  });
  return out;
}

std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  each_character(text,
                 [&](char32_t character, std::string_view) { width += columns_of(character); });
  return width;
}

std::string fit(const std::string& text, std::size_t columns) {
  if (width_of(text) <= columns) return text;
  std::string out;
  std::size_t width = 1;  // of the …
  bool full = false;
  each_character(text, [&](char32_t character, std::string_view bytes) {
    width += columns_of(character);
    full = full || width > columns;
    if (!full) out += bytes;
  });
  return columns == 0 ? "" : out + "…";
}

std::string wrap(std::string_view text, std::size_t columns, std::size_t indentation) {
  const std::string margin(indentation, ' ');
  std::string out;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with(' ')) {
      out += (line.empty() ? "" : margin + line) + "\n";
      continue;
    }
    std::istringstream words(line);
    std::string current;
    for (std::string word; words >> word;) {
      if (!current.empty() && indentation + width_of(current) + 1 + width_of(word) > columns) {
        out += margin + current + "\n";
        current.clear();
      }
      current += (current.empty() ? "" : " ") + word;
    }
    out += margin + current + "\n";
  }
  return out;
}

std::string with_commas(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string brief(milliseconds time) {
  const auto ms = time.count();
  if (ms < 0) return "-" + brief(-time);
  if (ms < 1'000) return std::to_string(ms) + "ms";
  if (ms < 10'000) {
    const auto tenths = ms / 100;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "s";
  }
  constexpr std::int64_t second = 1'000;
  constexpr std::int64_t minute = 60 * second;
  constexpr std::int64_t hour = 60 * minute;
  constexpr std::int64_t day = 24 * hour;
  if (ms < 2 * minute) return std::to_string(ms / second) + "s";
  if (ms < 2 * hour) return std::to_string(ms / minute) + "m";
  if (ms < 2 * day) return std::to_string(ms / hour) + "h";
  return std::to_string(ms / day) + "d";
}

std::string iso_time(system_clock::time_point time) {
  const auto ms = std::chrono::floor<milliseconds>(time.time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(ms);
  const std::time_t whole = seconds.count();
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  char text[48];
  std::snprintf(text, sizeof text, "%s.%03dZ", date, static_cast<int>((ms - seconds).count()));
  return text;
}

std::optional<system_clock::time_point> parse_time(std::string_view text) {
  const std::string copy(text);
  std::tm parts{};
  const char* rest = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) rest = ::strptime(copy.c_str(), "%Y-%m-%d %H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  milliseconds fraction{0};
  if (*rest == '.') {
    int scale = 100;
    for (++rest; *rest >= '0' && *rest <= '9'; ++rest, scale /= 10) {
      fraction += milliseconds{(*rest - '0') * scale};
    }
  }
  std::chrono::minutes offset{0};
  if (*rest == '+' || *rest == '-') {
    int hours = 0;
    int minutes = 0;
    int length = 0;
    if (std::sscanf(rest + 1, "%2d:%2d%n", &hours, &minutes, &length) != 2 || length != 5)
      return {};
    offset = (*rest == '+' ? 1 : -1) * std::chrono::minutes{hours * 60 + minutes};
    rest += 1 + length;
  } else if (*rest == 'Z') {
    ++rest;
  } else {
    return std::nullopt;  // in whose time zone?
  }
  if (*rest != '\0') return std::nullopt;
  // The clock counts nanoseconds in 64 bits: what is outside would come round to another year.
  if (parts.tm_year + 1900 < 1678 || parts.tm_year + 1900 > 2261) return std::nullopt;
  // strptime accepts a 31st of February; what comes back from the calendar differs then.
  const std::tm asked = parts;
  const std::time_t whole = ::timegm(&parts);
  if (parts.tm_mday != asked.tm_mday) return std::nullopt;
  return system_clock::from_time_t(whole) + fraction - offset;
}

std::string nearest(std::string_view word, const std::string& words_separated_by_blanks) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  std::istringstream words(words_separated_by_blanks);
  for (std::string candidate; words >> candidate;) {
    const std::size_t changes = distance(word, candidate);
    if (changes < least && changes < candidate.size()) {
      least = changes;
      best = candidate;
    }
  }
  return best;
}

}  // namespace leasehold::cli
