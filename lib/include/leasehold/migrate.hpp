#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "leasehold/export.hpp"

namespace leasehold::inline v0 {

struct MigrateOptions {
  /// As PostgresOptions::schema. It is made if it is missing. Not for SQLite.
  std::string schema = "leasehold";
};

struct MigrateReport {
  int from = 0;                      ///< the version that was there; 0 for none
  int to = 0;                        ///< the version that is there now
  std::vector<std::string> applied;  ///< the names of the migrations between
};

/// Brings the tables in a database to the version that this library needs, in one
/// transaction. Does nothing if they are there already. Several may do it at once: one does, the
/// others wait for it. Wants the right to create a schema, or to create tables in an existing one.
///
/// For `sqlite:path` the same in a file, which is made if it is missing. A TaskQueue does that by
/// itself, but refuses the file of another program; to join the transactions of such a program
/// (leasehold/sqlite.hpp), call this once: our tables, whose names begin with `task_` and
/// `leasehold_`, are added to its own, and the journal is switched to WAL. The schema is ignored.
///
/// Throws ServerRefused (newer_schema) if a newer Leasehold made the tables, and else as TaskQueue.
LEASEHOLD_API MigrateReport migrate(std::string_view uri, const MigrateOptions& options = {});

}  // namespace leasehold::inline v0
