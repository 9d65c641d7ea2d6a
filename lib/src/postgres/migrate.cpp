#include "postgres/migrate.hpp"

#include <algorithm>
#include <charconv>

#include "leasehold/errors.hpp"
#include "postgres/connection.hpp"
#include "postgres/pqxx_bridge.hpp"
#include "postgres/statement.hpp"
#include "sql_migrations.hpp"
#include "sql_queries.hpp"

namespace leasehold::inline v0::postgres {
namespace {

/// The number at the beginning of a migration's name.
int version_of(const EmbeddedText& migration) {
  int version = 0;
  std::from_chars(migration.name.data(), migration.name.data() + migration.name.size(), version);
  return version;
}

struct Installed {
  int version = 0;
  int needs = 0;  ///< the migration that a program must know
};

Installed installed(pqxx::transaction_base& transaction, const std::string& schema) {
  const auto ask = [&](const EmbeddedText& question) {
    return execute(transaction, Statement(question, schema).text, Params{});
  };
  if (!ask(sql::migration_table)[0][0].as<bool>()) return {};
  const auto versions = ask(sql::migration_version);
  return {versions[0][0].as<int>(), versions[0][1].as<int>()};
}

}  // namespace

MigrateReport migrate(std::string_view uri, const std::string& schema) {
  check_schema(schema);
  const auto where = parse_uri(uri, PostgresOptions{}.connect_timeout);
  const int newest = version_of(*migrations::all.back());

  MigrateReport report;
  Connection connection(where);
  connection.transaction([&](pqxx::transaction_base& transaction) {
    Params lock;
    lock.add(schema);
    execute(transaction, Statement(sql::migration_lock, schema).text, lock);
    const Installed found = installed(transaction, schema);
    report.from = found.version;
    report.to = std::max(found.version, newest);
    if (found.needs > newest) {
      throw ServerRefused(ServerRefused::Reason::newer_schema,
                          where.display + ": schema " + schema + " is at version " +
                              std::to_string(report.from) + " and requires migration " +
                              std::to_string(found.needs) + ", but this program knows only " +
                              std::to_string(newest) + ": update this program");
    }
    for (const EmbeddedText* migration : migrations::all) {
      if (version_of(*migration) <= report.from) continue;
      transaction.exec(in_schema(migration->text, schema));
      report.applied.emplace_back(migration->name);
    }
  });
  return report;
}

}  // namespace leasehold::inline v0::postgres
