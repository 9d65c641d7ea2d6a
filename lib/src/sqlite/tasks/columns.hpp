#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "sqlite/database/connection.hpp"
#include "sqlite/database/statement.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::sqlite {

inline std::chrono::system_clock::time_point to_time(std::int64_t us_since_1970) {
  return std::chrono::system_clock::time_point{std::chrono::microseconds{us_since_1970}};
}

inline std::int64_t us_since_1970(std::chrono::system_clock::time_point time) {
  return std::chrono::floor<std::chrono::microseconds>(time.time_since_epoch()).count();
}

/// Reads the columns of a row from the first to the last.
class Columns {
 public:
  explicit Columns(const Statement& row, int first = 0) : row_(row), at_(first) {}

  std::int64_t number() { return row_.integer(at_++); }
  int small_number() { return static_cast<int>(number()); }
  std::string_view view() { return row_.text(at_++); }
  /// Empty for null.
  std::string text() { return std::string(view()); }
  std::optional<std::string> optional_text() {
    if (row_.is_null(at_)) return skip();
    return text();
  }
  std::chrono::system_clock::time_point time() { return to_time(number()); }
  std::optional<std::chrono::system_clock::time_point> optional_time() {
    if (row_.is_null(at_)) return skip();
    return time();
  }

 private:
  std::nullopt_t skip() {
    ++at_;
    return std::nullopt;
  }

  const Statement& row_;
  int at_;
};

/// Executes a statement. Returns whether it changed a row.
template <class... Values>
bool changed(Connection& connection, const EmbeddedText& sql, const Values&... values) {
  return connection.execute(sql, values...) > 0;
}

}  // namespace leasehold::inline v0::sqlite
