#pragma once

#include "harness/postgres_server.hpp"
#include "harness/redis_server.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// One Redis for all tests of this process: started by the first call, stopped at exit. The Redis
/// at $LEASEHOLD_TEST_REDIS_URL takes its place if that is set. Tests that share it use lock names
/// of their own and never flush it.
RedisEndpoint& shared_redis();
/// Whether shared_redis() was called.
bool shared_redis_is_used();

/// The same for PostgreSQL and $LEASEHOLD_TEST_POSTGRES_URL, whose user must be allowed to create
/// databases. Each test creates a database of its own.
PostgresEndpoint& shared_postgres();

}  // namespace leasehold::testing
