#pragma once

#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace leasehold::inline v0::postgres {

inline std::int64_t us_since_1970(std::chrono::system_clock::time_point time) {
  return std::chrono::floor<std::chrono::microseconds>(time.time_since_epoch()).count();
}

/// A PostgreSQL array as text: {1,2,NULL} or {"a","b"}.
class ArrayText {
 public:
  explicit ArrayText(std::size_t bytes_expected = 0) { text_.reserve(bytes_expected + 2); }

  void add(std::int64_t number) {
    begin();
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    text_.append(digits, end);
  }

  void add(std::string_view value) {
    begin();
    text_ += '"';
    for (const char c : value) {
      if (c == '"' || c == '\\') text_ += '\\';
      text_ += c;
    }
    text_ += '"';
  }

  void add_null() {
    begin();
    text_ += "NULL";
  }

  std::string finish() && {
    text_ += text_.empty() ? "{}" : "}";
    return std::move(text_);
  }

 private:
  void begin() { text_ += text_.empty() ? '{' : ','; }

  std::string text_;
};

/// The parameters of a statement, in order, as text.
class Params {
 public:
  Params& add(std::int64_t number) { return add(std::to_string(number)); }
  Params& add(std::string text) {
    values_.emplace_back(std::move(text));
    return *this;
  }
  Params& add(std::string_view text) { return add(std::string(text)); }
  Params& add(ArrayText array) { return add(std::move(array).finish()); }
  template <typename T>
  Params& add(const std::optional<T>& value) {
    return value ? add(*value) : add_null();
  }
  Params& add_null() {
    values_.emplace_back(std::nullopt);
    return *this;
  }

  const std::vector<std::optional<std::string>>& values() const { return values_; }

 private:
  std::vector<std::optional<std::string>> values_;
};

}  // namespace leasehold::inline v0::postgres
