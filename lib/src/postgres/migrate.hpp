#pragma once

#include <string>
#include <string_view>

#include "leasehold/migrate.hpp"

namespace leasehold::inline v0::postgres {

/// leasehold::migrate() for PostgreSQL.
MigrateReport migrate(std::string_view uri, const std::string& schema);

}  // namespace leasehold::inline v0::postgres
