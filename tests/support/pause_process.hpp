#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "harness/process.hpp"
#include "tests/support/sqlite_connection.hpp"

namespace leasehold::testing {

/// Pauses a process that works on this SQLite file, but not in the middle of a transaction: there
/// it would keep the file locked, and everybody else waiting, until it goes on.
inline void pause_outside_transactions(Process& process, const std::string& path) {
  const auto connection = connect_to(path);
  sqlite3_busy_timeout(connection.get(), 500);
  for (;;) {
    process.pause();
    if (sqlite3_exec(connection.get(), "BEGIN IMMEDIATE; ROLLBACK", nullptr, nullptr, nullptr) ==
        SQLITE_OK) {
      return;
    }
    process.resume();
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

}  // namespace leasehold::testing
