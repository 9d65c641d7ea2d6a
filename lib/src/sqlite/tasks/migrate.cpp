#include "sqlite/tasks/migrate.hpp"

#include "sqlite/database/schema.hpp"
#include "sqlite/tasks/sqlite_task_store.hpp"
#include "sqlite_task_schema.hpp"

namespace leasehold::inline v0::sqlite {

std::optional<MigrateReport> migrate(std::string_view uri) {
  const auto parsed = parse_sqlite_uri(uri);
  if (!parsed) return std::nullopt;
  auto options = open_options({});
  options.strangers = Strangers::joined;
  MigrateReport report;
  report.from = open_and_look(*parsed, options).version_found;
  for (const EmbeddedText* migration : task_schema::all) {
    report.to = version_of(*migration);
    if (report.to > report.from) report.applied.emplace_back(migration->name);
  }
  return report;
}

}  // namespace leasehold::inline v0::sqlite
