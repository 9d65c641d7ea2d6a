#pragma once

#include <chrono>

namespace leasehold::harness {}

/// Tests and what supports them are in leasehold::testing, where the names of harness/ need no
/// qualification. GoogleTest's own namespace is written ::testing there. Only RedisReply exists
/// twice: harness::RedisReply is what a RespClient returns, leasehold::RedisReply the library's.
namespace leasehold::testing {

using namespace harness;
using namespace std::chrono_literals;

}  // namespace leasehold::testing
