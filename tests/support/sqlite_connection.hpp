#pragma once

#include <sqlite3.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

namespace leasehold::testing {

/// A connection of the test's own to a file; what it leaves open is rolled back.
struct CloseSqlite {
  void operator()(sqlite3* handle) const { sqlite3_close(handle); }
};
using SqliteConnection = std::unique_ptr<sqlite3, CloseSqlite>;
inline SqliteConnection connect_to(const std::string& path) {
  sqlite3* handle = nullptr;
  sqlite3_open(path.c_str(), &handle);
  sqlite3_busy_timeout(handle, 60'000);
  return SqliteConnection{handle};
}

/// Runs statements in SQLite; returns the rows of the last one, columns separated by |. There
/// leasehold.tasks is called task_queue.
inline std::string run_sql(sqlite3* connection, std::string statements) {
  const std::string name = "leasehold.tasks";
  for (std::size_t at; (at = statements.find(name)) != std::string::npos;) {
    statements.replace(at, name.size(), "task_queue");
  }
  std::string text;
  const auto add_row = [](void* to, int columns, char** values, char**) {
    std::string& all = *static_cast<std::string*>(to);
    if (!all.empty()) all += '\n';
    for (int i = 0; i < columns; ++i)
      all += (i == 0 ? "" : "|") + std::string(values[i] ? values[i] : "");
    return 0;
  };
  if (sqlite3_exec(connection, statements.c_str(), add_row, &text, nullptr) != SQLITE_OK) {
    throw std::runtime_error(statements + ": " + sqlite3_errmsg(connection));
  }
  return text;
}

}  // namespace leasehold::testing
