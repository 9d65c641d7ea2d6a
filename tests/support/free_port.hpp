#pragma once

#include "file_descriptor.hpp"
#include "harness/free_port.hpp"

namespace leasehold::testing {

using harness::FreePort;

}  // namespace leasehold::testing
