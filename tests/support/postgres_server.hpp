#pragma once

#include "data.hpp"
#include "free_port.hpp"
#include "harness/postgres_server.hpp"
#include "process.hpp"
#include "temp_dir.hpp"

namespace leasehold::testing {

using harness::PostgresEndpoint;
using harness::PostgresServer;
using harness::PostgresServerOptions;

/// One server for all tests of this program: started at the first call, stopped at exit. The
/// PostgreSQL at $LEASEHOLD_TEST_POSTGRES_URL takes its place when that is set (its user must be
/// allowed to create databases). Each test takes a database of its own.
PostgresEndpoint& shared_postgres();

}  // namespace leasehold::testing
