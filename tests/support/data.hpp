#pragma once

#include "harness/data.hpp"

namespace leasehold::testing {

using harness::Data;

}  // namespace leasehold::testing
