#pragma once

#include <sqlite3.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace leasehold::bench {

/// SQLite used directly, with prepared statements. Journal and durability are those of the library.
class RawSqlite {
 public:
  enum class Sync { normal, full };

  /// `path` is that of a file, or :memory:.
  RawSqlite(const std::string& path, Sync sync);

  class Statement {
   public:
    using Value = std::variant<std::int64_t, std::string_view>;

    Statement(RawSqlite& database, std::string_view sql);
    /// Executes it to its end; returns the first column of the first row, or -1.
    std::int64_t run(std::initializer_list<Value> values = {});
    /// Executes it to its end, with `on_row(sqlite3_stmt*)` for each row.
    template <class OnRow>
    void run(std::initializer_list<Value> values, OnRow&& on_row) {
      bind(values);
      int code = SQLITE_ROW;
      while ((code = sqlite3_step(statement_.get())) == SQLITE_ROW) on_row(statement_.get());
      finish(code);
    }

   private:
    void bind(std::initializer_list<Value> values);
    void finish(int code);

    struct Finalize {
      void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
    };
    std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  };

  void execute(const std::string& sql);
  std::int64_t changes() const { return sqlite3_changes64(handle_.get()); }

 private:
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close(handle); }
  };
  std::unique_ptr<sqlite3, Close> handle_;
};

/// The text of a file of bench/sql/sqlite/.
std::string raw_sqlite_sql(const std::string& name);

}  // namespace leasehold::bench
