#pragma once

#include "harness/file_descriptor.hpp"

namespace leasehold::testing {

using harness::FileDescriptor;

}  // namespace leasehold::testing
