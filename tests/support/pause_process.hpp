#pragma once

#include <chrono>
#include <string_view>
#include <thread>

#include "harness/process.hpp"
#include "leasehold/sqlite.hpp"
#include "tests/support/sqlite_connection.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// Whether nobody keeps the file locked for this long.
inline bool can_write(sqlite3* connection, std::chrono::milliseconds timeout) {
  sqlite3_busy_timeout(connection, static_cast<int>(timeout.count()));
  return sqlite3_exec(connection, "BEGIN IMMEDIATE; ROLLBACK", nullptr, nullptr, nullptr) ==
         SQLITE_OK;
}

/// Pauses a process that uses the store at this URI. If that is a SQLite file, not in the middle of
/// a transaction: there the process would keep the file locked, and everybody else waiting, until
/// it goes on.
inline void pause_outside_transactions(Process& process, std::string_view uri) {
  const auto file = sqlite_file(uri);
  if (!file) return process.pause();
  const auto connection = connect_to(*file);
  for (;;) {
    process.pause();
    if (can_write(connection.get(), std::chrono::milliseconds{500})) return;
    process.resume();
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

}  // namespace leasehold::testing
