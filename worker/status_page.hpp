#pragma once

#include <string>

#include "status.hpp"

namespace leasehold::worker {

/// The whole status, as JSON.
std::string render_status(const DaemonStatus& status);

/// One line for each queue that is not ready; empty if the daemon is ready.
std::string render_not_ready(const DaemonStatus& status);

}  // namespace leasehold::worker
