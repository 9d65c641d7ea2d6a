#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "sqlite/database/sqlite_uri.hpp"
#include "sqlite/database/statement.hpp"
#include "support/embedded_text.hpp"
#include "support/internal_api.hpp"

namespace leasehold::inline v0::sqlite {

/// Closes a connection, unless it is somebody else's.
struct CloseConnection {
  bool ours = true;
  void operator()(sqlite3* handle) const {
    if (ours) sqlite3_close_v2(handle);
  }
};

/// One connection with its prepared statements. Used by one thread at a time. Every call throws
/// Busy if another connection is in the way, otherwise as Database says.
class LEASEHOLD_INTERNAL_API Connection {
 public:
  explicit Connection(const SqliteUri& uri);
  /// One that belongs to somebody else, who has begun and will end its transaction.
  Connection(sqlite3* theirs, std::string where);

  /// Binds `values` to ?1, ?2, … Prepared once, then kept. The same text can run only once at a
  /// time.
  template <class... Values>
  Statement prepare(const EmbeddedText& sql, const Values&... values) {
    Statement statement(prepared(sql), where_);
    statement.bind(values...);
    return statement;
  }
  /// The same for a statement without rows; returns how many it changed.
  template <class... Values>
  std::int64_t execute(const EmbeddedText& sql, const Values&... values) {
    prepare(sql, values...).step();
    return changes();
  }
  /// Several statements without values, such as a migration.
  void execute_script(std::string_view sql);
  /// The first column of the first row, not kept.
  std::string pragma(std::string_view sql);

  std::int64_t changes() const { return sqlite3_changes(handle_.get()); }
  std::int64_t last_id() const { return sqlite3_last_insert_rowid(handle_.get()); }
  sqlite3* handle() const { return handle_.get(); }

  void begin() { step_once(begin_.get()); }
  void begin_immediate() { step_once(begin_immediate_.get()); }
  /// Throws OutcomeUnknown if it may or may not have happened.
  void commit();
  void rollback() noexcept;

  /// Whether the path does not lead to this file any more.
  bool moved() const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  using Prepared = std::unique_ptr<sqlite3_stmt, Finalize>;

  Prepared compile(std::string_view sql, unsigned flags);
  sqlite3_stmt* prepared(const EmbeddedText& sql);
  void step_once(sqlite3_stmt* statement);

  const std::string where_;
  const bool in_file_;
  std::unique_ptr<sqlite3, CloseConnection> handle_;
  // By the address of the text, which is embedded and so has one for ever.
  std::unordered_map<const char*, Prepared> statements_;
  Prepared begin_;
  Prepared begin_immediate_;
  Prepared commit_;
};

}  // namespace leasehold::inline v0::sqlite
