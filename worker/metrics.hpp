#pragma once

#include <string>

#include "status.hpp"

namespace leasehold::worker {

/// All metrics as Prometheus text. docs/operations.md explains each of them.
std::string render_metrics(const DaemonStatus& status);

}  // namespace leasehold::worker
