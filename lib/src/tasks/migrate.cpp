#include "leasehold/migrate.hpp"

#include "postgres/migrate.hpp"
#include "sqlite/tasks/migrate.hpp"

namespace leasehold::inline v0 {

MigrateReport migrate(std::string_view uri, const MigrateOptions& options) {
  if (auto report = sqlite::migrate(uri)) return *report;
  return postgres::migrate(uri, options.schema);
}

}  // namespace leasehold::inline v0
