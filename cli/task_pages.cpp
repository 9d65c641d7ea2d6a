#include "task_pages.hpp"

#include <algorithm>

namespace leasehold::cli {
namespace {

constexpr std::size_t first_page = 20;
constexpr std::size_t largest_page = 100;  // a task may have megabytes
constexpr std::size_t bytes_of_a_page = 4 * 1024 * 1024;
constexpr std::size_t page_without_payloads = 1'000;

std::size_t bytes_of(const TaskRecord& task) {
  std::size_t bytes = task.payload.size() + task.last_error.size();
  for (const auto& text : {&task.progress, &task.result}) {
    if (*text) bytes += (*text)->size();
  }
  return bytes;
}

/// `next_page(number, bytes)` is the size of the page that follows one with so many tasks.
template <typename NextPage>
std::size_t visit_pages(TaskQueue& queue, TaskFilter filter, std::size_t page, NextPage next_page,
                        const VisitTask& visit) {
  const std::size_t most = filter.limit;
  std::size_t visited = 0;
  while (visited < most) {
    filter.limit = std::min(page, most - visited);
    const std::vector<TaskRecord> tasks = queue.list(filter);
    std::size_t bytes = 0;
    for (const TaskRecord& task : tasks) {
      bytes += bytes_of(task);
      visit(task);
    }
    visited += tasks.size();
    if (tasks.size() < filter.limit) break;
    filter.after = tasks.back().id;
    page = next_page(tasks.size(), bytes);
  }
  return visited;
}

}  // namespace

TaskFilter filter_without_payloads(TaskFilter filter) {
  filter.payloads = Payloads::without;
  return filter;
}

std::size_t visit_tasks(TaskQueue& queue, TaskFilter filter, const VisitTask& visit) {
  const auto next_page = [](std::size_t number, std::size_t bytes) {
    const std::size_t fitting = number * bytes_of_a_page / std::max<std::size_t>(bytes, 1);
    return std::clamp<std::size_t>(fitting, 1, largest_page);
  };
  return visit_pages(queue, std::move(filter), first_page, next_page, visit);
}

std::size_t visit_tasks_without_payloads(TaskQueue& queue, TaskFilter filter,
                                         const VisitTask& visit) {
  const auto same = [](std::size_t, std::size_t) { return page_without_payloads; };
  return visit_pages(queue, filter_without_payloads(std::move(filter)), page_without_payloads, same,
                     visit);
}

}  // namespace leasehold::cli
