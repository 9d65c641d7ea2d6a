#pragma once

#include "file_descriptor.hpp"
#include "harness/resp_client.hpp"

namespace leasehold::testing {

using harness::RedisAddress;
using harness::RedisReply;
using harness::RespClient;

}  // namespace leasehold::testing
