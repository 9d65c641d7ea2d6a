#pragma once

#include <sqlite3.h>

#include <string>

#include "leasehold/errors.hpp"
#include "sqlite/database/connection.hpp"
#include "sqlite/database/inside.hpp"

namespace leasehold::inline v0::sqlite {

/// The path of a connection's main database, or empty if that is in memory.
inline std::string path_of(sqlite3* handle) {
  const char* path = sqlite3_db_filename(handle, "main");
  return path ? path : "";
}

inline bool has_table(sqlite3* handle, const char* name) {
  return sqlite3_table_column_metadata(handle, "main", name, nullptr, nullptr, nullptr, nullptr,
                                       nullptr, nullptr) == SQLITE_OK;
}

inline void check_in_transaction(sqlite3* handle) {
  if (handle == nullptr) throw InvalidArgument("the connection is null");
  if (sqlite3_get_autocommit(handle) != 0) {
    throw InvalidArgument("no transaction is open on this connection: BEGIN IMMEDIATE first");
  }
}

/// Runs `work(Connection&)` on a connection of the caller, and translates errors into ours.
template <class Work>
auto in_callers_transaction(sqlite3* handle, const std::string& where, Work&& work) {
  try {
    const Inside* inside =
        Inside::find([handle](const Inside& one) { return one.connection().handle() == handle; });
    if (inside) return work(inside->connection());
    Connection callers(handle, where);
    return work(callers);
  } catch (const Busy&) {
    throw Unavailable(where +
                      ": another connection is writing: begin the transaction with BEGIN "
                      "IMMEDIATE, and set a busy time-out on its connection");
  }
}

}  // namespace leasehold::inline v0::sqlite
