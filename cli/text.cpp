#include "text.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <vector>

#include "support/utf8.hpp"

namespace leasehold::cli {
namespace {

using std::chrono::milliseconds;

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

/// How many letters have to be changed, added or removed to turn one word into the other.
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
               (character >= 0x202a &&
                character <= 0x202e)) {  // these reverse the direction of a line
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
  std::size_t width = 1;  // for the …
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

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string nearest(std::string_view word, const std::vector<std::string>& words) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : words) {
    const std::size_t changes = distance(word, candidate);
    if (changes < least && changes < candidate.size()) {
      least = changes;
      best = candidate;
    }
  }
  return best;
}

}  // namespace leasehold::cli
