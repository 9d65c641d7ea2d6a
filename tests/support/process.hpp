#pragma once

#include "file_descriptor.hpp"
#include "harness/process.hpp"

namespace leasehold::testing {

using harness::ExitStatus;
using harness::Finished;
using harness::is_alive;
using harness::Output;
using harness::Process;
using harness::ProcessOptions;
using harness::run;
using harness::RunAs;
using harness::unprivileged_user;

}  // namespace leasehold::testing
