#pragma once

#include <nlohmann/json.hpp>

#include "leasehold/lock.hpp"
#include "leasehold/queue_health.hpp"
#include "leasehold/task.hpp"
#include "table.hpp"

namespace leasehold::cli {

// Tasks and locks as they are shown: as JSON for programs, as cells for people. In JSON, times are
// ISO 8601 in UTC, durations whole milliseconds (…_ms), and what is not there is null.

nlohmann::ordered_json as_json(const TaskRecord& task);
nlohmann::ordered_json as_json(const LockRecord& lock);

Colour colour_of(TaskState state);
Colour colour_of(LockState state);

const char* to_string(LockKind kind);

/// "runner (pid 7 on host)", as far as it is known: of an exclusive lock, or one of the holders of
/// a shared one.
std::string runner_of(const LockRecord& holder);
/// The same of a lock; "2 holders" of a shared one.
std::string holder_of(const LockRecord& lock);

}  // namespace leasehold::cli
