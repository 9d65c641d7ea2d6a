#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "support/internal_api.hpp"

namespace leasehold::inline v0 {

// One event is one line: its name, and then key=value pairs.
//
//   task lost id=7 version=3 worker="a \"b\" c=d"
//
// A number stands as it is. A text stands as it is if nothing can be mistaken in it, and otherwise
// as a JSON string. So a line can be read back without loss, and a text that others wrote can
// neither add a pair nor end the line. Names and keys are literals, which the compiler checks.

/// The name of an event.
class EventName {
 public:
  consteval EventName(const char* name) : text_(name) {  // NOLINT(google-explicit-constructor)
    if (text_.empty()) throw "the name of an event is missing";
    for (const char c : text_) {
      if (c == '=' || c == '"' || c < ' ') throw "this would be read as a pair";
    }
  }
  constexpr std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

/// The key of a pair.
class LogKey {
 public:
  consteval LogKey(const char* key) : text_(key) {  // NOLINT(google-explicit-constructor)
    if (text_.empty()) throw "the key is missing";
    for (const char c : text_) {
      if ((c < 'a' || c > 'z') && c != '_') throw "a key has small letters and _ only";
    }
  }
  constexpr std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

/// A key and its value. Refers to the text, which must outlive it.
class LogField {
 public:
  template <std::integral Number>
  requires(!std::same_as<Number, bool>) LogField(LogKey key, Number number)
  noexcept
      : key_(key),
        kind_(std::unsigned_integral<Number> ? Kind::positive : Kind::number),
        number_(static_cast<std::int64_t>(number)) {}
  LogField(LogKey key, std::string_view text) noexcept : key_(key), text_(text) {}

  /// Appends ` key=value`.
  LEASEHOLD_INTERNAL_API void append_to(std::string& line) const;

 private:
  enum class Kind { number, positive, text };

  LogKey key_;
  Kind kind_ = Kind::text;
  std::int64_t number_ = 0;
  std::string_view text_;
};

/// A text as it is written after `key=`. A text of more than 4096 bytes is cut.
LEASEHOLD_INTERNAL_API std::string log_value(std::string_view text);

/// The whole line.
LEASEHOLD_INTERNAL_API std::string log_line(EventName event,
                                            std::initializer_list<LogField> fields);

/// A line as it was before log_line() wrote it.
struct LoggedLine {
  using Value = std::variant<std::int64_t, std::uint64_t, std::string>;

  std::string event;
  std::vector<std::pair<std::string, Value>> fields;  ///< no key is there twice
  std::size_t fields_at = 0;                          ///< where the event's name ends in the text
};

/// Reads a line that log_line() wrote. Returns nothing for any other text: nothing is guessed.
LEASEHOLD_INTERNAL_API std::optional<LoggedLine> parse_log_line(std::string_view line);

}  // namespace leasehold::inline v0
