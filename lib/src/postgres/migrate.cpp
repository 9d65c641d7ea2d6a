#include "leasehold/migrate.hpp"

#include <charconv>

#include "leasehold/errors.hpp"
#include "postgres/connection.hpp"
#include "postgres/pqxx_bridge.hpp"
#include "postgres/statement.hpp"
#include "sql_migrations.hpp"
#include "sql_queries.hpp"
#include "sqlite/tasks/sqlite_task_store.hpp"

namespace leasehold::inline v0 {
namespace {

using postgres::Params;
using postgres::Statement;

/// The number at the beginning of a migration's name.
int version_of(const EmbeddedText& migration) {
  int version = 0;
  std::from_chars(migration.name.data(), migration.name.data() + migration.name.size(), version);
  return version;
}

int version_there(pqxx::transaction_base& transaction, const std::string& schema) {
  const auto ask = [&](const EmbeddedText& question) {
    return postgres::execute(transaction, Statement(question, schema).text, Params{});
  };
  if (!ask(sql::migration_table)[0][0].as<bool>()) return 0;
  return ask(sql::migration_version)[0][0].as<int>();
}

}  // namespace

MigrateReport migrate(std::string_view uri, const MigrateOptions& options) {
  postgres::check_schema(options.schema);
  if (auto report = migrate_sqlite(uri)) return *report;
  const auto where = postgres::parse_uri(uri, PostgresOptions{}.connect_timeout);
  const int newest = version_of(*migrations::all.back());

  MigrateReport report;
  postgres::Connection connection(where);
  connection.transaction([&](pqxx::transaction_base& transaction) {
    Params lock;
    lock.add(options.schema);
    postgres::execute(transaction, Statement(sql::migration_lock, options.schema).text, lock);
    report.from = version_there(transaction, options.schema);
    if (report.from > newest) {
      throw ServerRefused(ServerRefused::Reason::newer_schema,
                          where.display + ": schema " + options.schema + " is at version " +
                              std::to_string(report.from) + ", this Leasehold knows up to " +
                              std::to_string(newest) + ": update this program");
    }
    for (const EmbeddedText* migration : migrations::all) {
      if (version_of(*migration) <= report.from) continue;
      transaction.exec(postgres::in_schema(migration->text, options.schema));
      report.applied.emplace_back(migration->name);
    }
    report.to = newest;
  });
  return report;
}

}  // namespace leasehold::inline v0
