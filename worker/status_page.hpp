#pragma once

#include <string>

#include "status.hpp"

namespace leasehold::worker {

/// Everything an operator wants to know at a glance, as JSON.
std::string render_status(const Board& board);

/// What is wrong, one line a queue; empty if the daemon is ready.
std::string render_not_ready(const Board& board);

}  // namespace leasehold::worker
