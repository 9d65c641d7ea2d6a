#pragma once

#include <string>
#include <string_view>

#include "leasehold/postgres_options.hpp"

namespace leasehold::inline v0::postgres {

/// Where a PostgreSQL database is.
struct PostgresUri {
  std::string conninfo;  ///< for libpq
  std::string display;   ///< for messages, without the password
};

/// Throws InvalidArgument that says what is wrong. Never shows a password.
PostgresUri parse_uri(std::string_view uri, std::chrono::milliseconds connect_timeout);

/// Throws InvalidArgument.
void check_schema(std::string_view schema);
void check_postgres_options(const PostgresOptions& options);

}  // namespace leasehold::inline v0::postgres
