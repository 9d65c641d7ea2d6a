#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "leasehold/lock.hpp"
#include "leasehold/queue_health.hpp"
#include "leasehold/task.hpp"
#include "table.hpp"

namespace leasehold::cli {

// How tasks and locks are shown: as JSON for programs, as cells for people. In JSON, times are ISO
// 8601 in UTC, durations are whole milliseconds (…_ms), and missing values are null.

nlohmann::ordered_json as_json(const TaskRecord& task);
nlohmann::ordered_json as_json(const LockRecord& lock);

template <typename Record>
nlohmann::ordered_json as_json_array(const std::vector<Record>& records) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const Record& record : records) array.push_back(as_json(record));
  return array;
}

Colour colour_of(TaskState state);
Colour colour_of(LockState state);

const char* to_string(LockKind kind);

/// "runner (pid 7 on host)", as far as it is known. For an exclusive lock, or for one holder of a
/// shared lock.
std::string runner_of(const LockRecord& holder);
/// The same; for a shared lock "2 holders".
std::string holder_of(const LockRecord& lock);

}  // namespace leasehold::cli
