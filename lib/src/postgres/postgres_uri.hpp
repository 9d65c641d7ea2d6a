#pragma once

#include <string>
#include <string_view>

#include "leasehold/task_queue.hpp"

namespace leasehold::inline v0::postgres {

/// Where a PostgreSQL is.
struct PostgresUri {
  std::string conninfo;  ///< for libpq
  std::string display;   ///< for messages: no password
};

/// Throws InvalidArgument, naming what is wrong. Never shows a password.
PostgresUri parse_uri(std::string_view uri, std::chrono::milliseconds connect_timeout);

/// Throws InvalidArgument.
void check_schema(std::string_view schema);
void check_postgres_options(const PostgresOptions& options);

}  // namespace leasehold::inline v0::postgres
