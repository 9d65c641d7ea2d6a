#pragma once

#include <string>

#include "status.hpp"

namespace leasehold::worker {

/// Everything as Prometheus text. docs/operations.md says what each metric means.
std::string render_metrics(const Board& board);

}  // namespace leasehold::worker
