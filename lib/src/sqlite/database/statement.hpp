#pragma once

#include <sqlite3.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sqlite/database/sqlite_errors.hpp"

namespace leasehold::inline v0::sqlite {

/// A prepared statement with its values, borrowed from the Connection that keeps it; given
/// back by the destructor. Bound texts are not copied: they have to outlive the statement.
class Statement {
 public:
  Statement(sqlite3_stmt* statement, const std::string& where)
      : statement_(statement), where_(where) {}
  ~Statement() {
    if (!statement_) return;
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);  // no bound text is looked at again
  }
  Statement(Statement&& other) noexcept
      : statement_(std::exchange(other.statement_, nullptr)), where_(other.where_) {}
  Statement& operator=(Statement&&) = delete;

  /// Binds ?1, ?2 and so on.
  template <class... Values>
  void bind(const Values&... values) {
    int index = 0;
    (bind_one(++index, values), ...);
  }

  /// Goes to the next row; false if there is none. Throws as Database says.
  bool step() {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    raise(code, sqlite3_db_handle(statement_), where_);
  }

  /// Columns of the present row, from 0. Texts are valid until the next step().
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double real(int column) const { return sqlite3_column_double(statement_, column); }
  std::string_view text(int column) const {
    const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
  }
  bool is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

 private:
  void bind_one(int index, std::string_view text) {
    // An empty view may have no address, which SQLite would take for NULL.
    const char* data = text.data() ? text.data() : "";
    check(sqlite3_bind_text64(statement_, index, data, text.size(), SQLITE_STATIC, SQLITE_UTF8));
  }
  template <std::integral Integer>
  void bind_one(int index, Integer value) {
    check(sqlite3_bind_int64(statement_, index, static_cast<sqlite3_int64>(value)));
  }
  void bind_one(int index, double value) { check(sqlite3_bind_double(statement_, index, value)); }
  void bind_one(int index, std::chrono::milliseconds value) { bind_one(index, value.count()); }
  void bind_one(int index, std::chrono::microseconds value) { bind_one(index, value.count()); }
  void bind_one(int index, std::nullptr_t) { check(sqlite3_bind_null(statement_, index)); }
  template <class Value>
  void bind_one(int index, const std::optional<Value>& value) {
    value ? bind_one(index, *value) : bind_one(index, nullptr);
  }
  void check(int code) const {
    if (code != SQLITE_OK) raise(code, sqlite3_db_handle(statement_), where_);
  }

  sqlite3_stmt* statement_;
  const std::string& where_;
};

}  // namespace leasehold::inline v0::sqlite
