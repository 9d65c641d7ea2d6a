#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "leasehold/export.hpp"

namespace leasehold::inline v0 {

struct MigrateOptions {
  /// As PostgresOptions::schema. It is created if it does not exist. Not used for SQLite.
  std::string schema = "leasehold";
};

struct MigrateReport {
  int from = 0;                      ///< the version before, or 0 if there were no tables
  int to = 0;                        ///< the version now
  std::vector<std::string> applied;  ///< the names of the migrations in between
};

/// Brings the tables in a database to the version that this library needs, in one transaction. Does
/// nothing if they have it already, or a newer one with which this library can work. If several
/// processes call it at once, one migrates and the others wait for it. In PostgreSQL the user needs
/// the right to create a schema, or to create tables in an existing one.
///
/// For `sqlite:path` it does the same in a file, which is created if it does not exist. A TaskQueue
/// does that by itself, but refuses files of other programs. To join the transactions of such a
/// program (leasehold/sqlite.hpp), call migrate() once on its file: it adds our tables, whose names
/// begin with `task_` and `leasehold_`, and switches the journal to WAL.
///
/// Throws ServerRefused (newer_schema) if a newer Leasehold has changed the tables so that this one
/// cannot work with them. Otherwise it throws as TaskQueue does.
LEASEHOLD_API MigrateReport migrate(std::string_view uri, const MigrateOptions& options = {});

}  // namespace leasehold::inline v0
