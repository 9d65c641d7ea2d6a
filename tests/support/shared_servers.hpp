#pragma once

#include <memory>
#include <string>

#include "harness/postgres_server.hpp"
#include "harness/redis_cluster.hpp"
#include "harness/redis_server.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// A Redis for locks, in the topology that $LEASEHOLD_TEST_TOPOLOGY names: `plain` (the default),
/// `tls`, `sentinel` or `cluster`.
struct RedisUnderTest {
  std::shared_ptr<RedisEndpoint> server;  ///< to inspect it, over a plain connection
  std::string uri;                        ///< for clients of locks
};
RedisUnderTest start_redis();

/// One Redis for all tests of this process: started by the first call, stopped at exit. In the
/// plain topology the Redis at $LEASEHOLD_TEST_REDIS_URL takes its place if that is set. Tests that
/// share it use lock names of their own and never flush it.
RedisEndpoint& shared_redis();
/// For clients of locks; shared_redis().uri() is always plain.
const std::string& shared_redis_uri();
/// Whether shared_redis() was called.
bool shared_redis_is_used();

/// The same for PostgreSQL and $LEASEHOLD_TEST_POSTGRES_URL, whose user must be allowed to create
/// databases. Each test creates a database of its own.
PostgresEndpoint& shared_postgres();

}  // namespace leasehold::testing
