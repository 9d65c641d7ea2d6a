#include "raw_sqlite.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace leasehold::bench {

RawSqlite::RawSqlite(const std::string& path, Sync sync) {
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &handle,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  handle_.reset(handle);
  if (code != SQLITE_OK) throw std::runtime_error("cannot open " + path);
  execute("PRAGMA journal_mode = WAL");
  execute(sync == Sync::full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
}

void RawSqlite::execute(const std::string& sql) {
  if (sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::runtime_error(sql + ": " + sqlite3_errmsg(handle_.get()));
  }
}

RawSqlite::Statement::Statement(RawSqlite& database, std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v3(database.handle_.get(), sql.data(), static_cast<int>(sql.size()),
                     SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (statement == nullptr) throw std::runtime_error("cannot prepare " + std::string(sql));
  statement_.reset(statement);
}

std::int64_t RawSqlite::Statement::run(std::initializer_list<Value> values) {
  std::int64_t first = -1;
  bool any = false;
  run(values, [&](sqlite3_stmt* row) {
    if (!std::exchange(any, true)) first = sqlite3_column_int64(row, 0);
  });
  return first;
}

void RawSqlite::Statement::bind(std::initializer_list<Value> values) {
  int index = 0;
  for (const Value& value : values) {
    ++index;
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      sqlite3_bind_int64(statement_.get(), index, *number);
    } else {
      const auto text = std::get<std::string_view>(value);
      sqlite3_bind_text64(statement_.get(), index, text.data(), text.size(), SQLITE_STATIC,
                          SQLITE_UTF8);
    }
  }
}

void RawSqlite::Statement::finish(int code) {
  sqlite3_reset(statement_.get());
  if (code != SQLITE_DONE) throw std::runtime_error("raw SQLite: " + std::to_string(code));
}

std::string raw_sqlite_sql(const std::string& name) {
  const auto file = std::filesystem::path(LEASEHOLD_BENCH_SQL) / "sqlite" / name;
  std::ifstream in(file);
  if (!in) throw std::runtime_error("no file " + file.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace leasehold::bench
