#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "snapshot.hpp"
#include "terminal.hpp"

namespace leasehold::cli {

nlohmann::ordered_json as_json(const Snapshot& snapshot);

/// What rows are sorted by.
enum class SortBy { name, number };

/// One screen for people, with at most `rows` rows in each table.
std::string render(const Snapshot& snapshot, const Terminal& terminal, std::size_t rows,
                   SortBy sort_by = SortBy::name);

}  // namespace leasehold::cli
