#include "support/log_line.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "support/utf8.hpp"

namespace leasehold::inline v0 {
namespace {

constexpr std::size_t longest_value = 4096;

constexpr std::string_view digits = "0123456789-";
constexpr std::string_view plain =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.:/@+[]0123456789-";

/// Whether a text can stand without quotation marks. What looks like a number cannot: the type of
/// a task may be "42".
bool is_plain(std::string_view text) {
  return text.find_first_not_of(plain) == text.npos && text.find_first_not_of(digits) != text.npos;
}

void append_unicode(std::string& out, unsigned character) {
  char escape[7];
  std::snprintf(escape, sizeof escape, "\\u%04x", character);
  out += escape;
}

/// Appends the character that begins at `at` if it has several bytes and would still break the line
/// or move the cursor. Returns how many bytes it has, or 0.
std::size_t append_long_control(std::string& out, std::string_view text, std::size_t at) {
  if (is_long_control(text, at)) {
    append_unicode(out, static_cast<unsigned char>(text[at + 1]));
    return 2;
  }
  for (const unsigned separator : {0x2028U, 0x2029U}) {  // of lines, of paragraphs
    if (text.substr(at, 3) != (separator == 0x2028 ? "\u2028" : "\u2029")) continue;
    append_unicode(out, separator);
    return 3;
  }
  return 0;
}

void append_escaped(std::string& out, char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (c == '"' || c == '\\') {
    out += '\\';
    out += c;
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else if (byte < 0x20 || byte == 0x7f) {
    append_unicode(out, byte);
  } else {
    out += c;
  }
}

/// Where the text in quotation marks that begins at `begin` ends; npos if it does not.
std::size_t end_of_quoted(std::string_view line, std::size_t begin) {
  for (auto at = begin + 1; at < line.size(); ++at) {
    if (line[at] == '\\')
      ++at;
    else if (line[at] == '"')
      return at + 1;
  }
  return line.npos;
}

template <typename Number>
std::optional<LoggedLine::Value> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<LoggedLine::Value> parse_value(std::string_view text) {
  if (text.starts_with('"')) {
    const auto parsed = nlohmann::json::parse(text, nullptr, false);
    if (!parsed.is_string()) return std::nullopt;
    return parsed.get<std::string>();
  }
  if (text.empty() || text.find_first_not_of(plain) != text.npos) return std::nullopt;
  if (is_plain(text)) return std::string(text);
  if (auto number = parse_number<std::int64_t>(text)) return number;
  return parse_number<std::uint64_t>(text);
}

bool is_event_name(std::string_view text) {
  return !text.empty() && std::ranges::none_of(text, [](char c) {
    return c == '=' || c == '"' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
}

}  // namespace

std::string log_value(std::string_view text) {
  if (text.size() <= longest_value && is_plain(text)) return std::string(text);
  std::string shown(text.substr(0, longest_value));
  if (text.size() > longest_value) {
    // The last character may be in pieces.
    shown = utf8_prefix(std::string(text.substr(0, longest_value + 4)), longest_value) + "…";
  }
  if (!is_utf8(shown)) shown = replace_invalid_utf8(shown);
  std::string out = "\"";
  for (std::size_t at = 0; at < shown.size();) {
    if (const std::size_t length = append_long_control(out, shown, at)) {
      at += length;
    } else {
      append_escaped(out, shown[at++]);
    }
  }
  return out + "\"";
}

void LogField::append_to(std::string& line) const {
  line += ' ';
  line += key_.text();
  line += '=';
  if (kind_ == Kind::text) {
    line += log_value(text_);
  } else if (kind_ == Kind::positive) {
    line += std::to_string(static_cast<std::uint64_t>(number_));
  } else {
    line += std::to_string(number_);
  }
}

std::string log_line(EventName event, std::initializer_list<LogField> fields) {
  std::string line(event.text());
  for (const LogField& field : fields) field.append_to(line);
  return line;
}

std::optional<LoggedLine> parse_log_line(std::string_view line) {
  LoggedLine parsed;
  // A name has no = in it, so that the first one is the first pair's.
  const auto first = line.find('=');
  parsed.fields_at = first == line.npos ? line.size() : line.rfind(' ', first);
  if (parsed.fields_at == line.npos) return std::nullopt;
  parsed.event = line.substr(0, parsed.fields_at);
  if (!is_event_name(parsed.event)) return std::nullopt;
  for (auto at = parsed.fields_at; at < line.size();) {
    const auto equals = line.find('=', at);
    if (line[at] != ' ' || equals == line.npos) return std::nullopt;
    const std::string key(line.substr(at + 1, equals - at - 1));
    const bool is_key =
        !key.empty() && key.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == key.npos;
    const bool is_new =
        std::ranges::none_of(parsed.fields, [&](const auto& field) { return field.first == key; });
    if (!is_key || !is_new) return std::nullopt;
    const auto begin = equals + 1;
    const bool quoted = begin < line.size() && line[begin] == '"';
    const auto end =
        quoted ? end_of_quoted(line, begin) : std::min(line.find(' ', begin), line.size());
    if (end == line.npos) return std::nullopt;
    auto value = parse_value(line.substr(begin, end - begin));
    if (!value) return std::nullopt;
    parsed.fields.emplace_back(key, std::move(*value));
    at = end;
  }
  return parsed;
}

}  // namespace leasehold::inline v0
