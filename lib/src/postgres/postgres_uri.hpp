#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/postgres_options.hpp"

namespace leasehold::inline v0::postgres {

/// Where a PostgreSQL database is.
struct PostgresUri {
  struct Host {
    std::string conninfo;  ///< for libpq, of this host only
    std::string name;      ///< to look up; empty if there is nothing to look up
  };

  std::vector<Host> hosts;                    ///< one or more, in the order of the URI
  std::string display;                        ///< for messages, without the password
  std::chrono::milliseconds connect_timeout;  ///< for each address of each host
};

/// Throws InvalidArgument that says what is wrong. Never shows a password.
PostgresUri parse_uri(std::string_view uri, std::chrono::milliseconds connect_timeout);

/// Throws InvalidArgument.
void check_schema(std::string_view schema);
void check_postgres_options(const PostgresOptions& options);

}  // namespace leasehold::inline v0::postgres
