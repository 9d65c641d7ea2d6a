#pragma once

#include "harness/temp_dir.hpp"

namespace leasehold::testing {

using harness::TempDir;

}  // namespace leasehold::testing
