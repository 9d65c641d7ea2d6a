#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {

/// What is announced about new tasks: a line for each type, with the number of tasks after a tab.
/// Empty if that would be too long. None if no task is due now: a worker that looked would find
/// nothing. Whether it is goes by the clock of this machine; if that is wrong, tasks are found by
/// polling.
std::optional<std::string> notification_of(std::span<const NewTask> tasks);

/// Reads what notification_of() has written. Empty, which stands for any tasks, if it says nothing
/// that we know: other programs may notify too.
News read_notification(std::string_view text);

/// What several notifications say. Tasks that were announced one by one will be taken one by one,
/// so of each type the largest number counts.
News all_news(std::span<const std::string> notifications);

}  // namespace leasehold::inline v0::postgres
