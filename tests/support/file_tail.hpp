#pragma once

#include "harness/file_tail.hpp"

namespace leasehold::testing {

using harness::file_tail;

}  // namespace leasehold::testing
