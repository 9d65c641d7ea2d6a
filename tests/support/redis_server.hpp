#pragma once

#include "data.hpp"
#include "free_port.hpp"
#include "harness/redis_server.hpp"
#include "process.hpp"
#include "resp_client.hpp"
#include "temp_dir.hpp"

namespace leasehold::testing {

using harness::RedisEndpoint;
using harness::RedisServer;
using harness::RedisServerOptions;

/// One server for all tests of this program: started at the first call, stopped at exit. The Redis
/// at $LEASEHOLD_TEST_REDIS_URL takes its place when that is set. Tests that share it use names of
/// their own and never flush it.
RedisEndpoint& shared_redis();

}  // namespace leasehold::testing
