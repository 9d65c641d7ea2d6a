#include "sqlite/database/connection.hpp"

#include <stdexcept>
#include <utility>

namespace leasehold::inline v0::sqlite {

Connection::Connection(const SqliteUri& uri)
    : where_(uri.display()), in_file_(uri.kind == SqliteUri::Kind::file) {
  const std::string path = in_file_ ? uri.path : ":memory:";
  sqlite3* handle = nullptr;
  // Our callers see to it that one thread at a time uses it.
  const int code =
      sqlite3_open_v2(path.c_str(), &handle,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  handle_.reset(handle);
  if (code != SQLITE_OK) raise_open_failure(code, handle, path, where_);
  sqlite3_extended_result_codes(handle, 1);
  begin_ = compile("BEGIN", SQLITE_PREPARE_PERSISTENT);
  begin_immediate_ = compile("BEGIN IMMEDIATE", SQLITE_PREPARE_PERSISTENT);
  commit_ = compile("COMMIT", SQLITE_PREPARE_PERSISTENT);
}

Connection::Connection(sqlite3* theirs, std::string where)
    : where_(std::move(where)), in_file_(true), handle_(theirs, CloseConnection{.ours = false}) {}

Connection::Prepared Connection::compile(std::string_view sql, unsigned flags) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                      flags, &statement, nullptr);
  if (code != SQLITE_OK) raise(code, handle_.get(), where_);
  return Prepared{statement};
}

sqlite3_stmt* Connection::prepared(const EmbeddedText& sql) {
  Prepared& statement = statements_[sql.text.data()];
  if (!statement) statement = compile(sql.text, SQLITE_PREPARE_PERSISTENT);
  if (sqlite3_stmt_busy(statement.get())) {
    throw std::logic_error("SQL " + std::string(sql.name) + " is in use already");
  }
  return statement.get();
}

void Connection::step_once(sqlite3_stmt* statement) {
  const int code = sqlite3_step(statement);
  sqlite3_reset(statement);
  if (code != SQLITE_DONE) raise(code, handle_.get(), where_);
}

void Connection::execute_script(std::string_view sql) {
  const int code = sqlite3_exec(handle_.get(), std::string(sql).c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) raise(code, handle_.get(), where_);
}

std::string Connection::pragma(std::string_view sql) {
  const Prepared kept = compile(sql, 0);
  Statement statement(kept.get(), where_);
  return statement.step() ? std::string(statement.text(0)) : std::string();
}

void Connection::commit() {
  const int code = sqlite3_step(commit_.get());
  sqlite3_reset(commit_.get());
  if (code != SQLITE_DONE) raise_commit_failure(code, handle_.get(), where_);
}

void Connection::rollback() noexcept {
  // After some errors SQLite has done it already.
  if (sqlite3_get_autocommit(handle_.get()) == 0) {
    sqlite3_exec(handle_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

bool Connection::moved() const {
  int moved = 0;
  return in_file_ &&
         sqlite3_file_control(handle_.get(), "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK &&
         moved != 0;
}

}  // namespace leasehold::inline v0::sqlite
