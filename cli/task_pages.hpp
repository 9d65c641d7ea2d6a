#pragma once

#include <functional>
#include <limits>

#include "leasehold/task_queue.hpp"

namespace leasehold::cli {

// Tasks are read page by page, so that the tool never holds more than a page of them.

using VisitTask = std::function<void(const TaskRecord&)>;

/// For TaskFilter::limit of the functions below.
inline constexpr std::size_t all_tasks = std::numeric_limits<std::size_t>::max();

/// The same tasks, without payload, progress and result.
TaskFilter filter_without_payloads(TaskFilter filter);

/// Visits the tasks that match, in order of id, up to `filter.limit` of them. Pages of large tasks
/// are smaller. Returns how many there were.
std::size_t visit_tasks(TaskQueue& queue, TaskFilter filter, const VisitTask& visit);

/// The same if nobody looks at payload, progress and result.
std::size_t visit_tasks_without_payloads(TaskQueue& queue, TaskFilter filter,
                                         const VisitTask& visit);

}  // namespace leasehold::cli
