#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>
#include <tuple>

#include "sqlite/tasks/columns.hpp"
#include "sqlite/tasks/lease_end.hpp"
#include "sqlite/tasks/sqlite_task_store.hpp"
#include "sqlite_task_sql.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using std::chrono::microseconds;

/// Appends the first tasks of a type that are due, in the order in which they are leased, with the
/// versions and attempts that they will have then.
void append_due(std::vector<LeasedTask>& tasks, Connection& connection, const std::string& type,
                std::size_t most, microseconds now) {
  int below = std::numeric_limits<int>::max();
  for (bool another_level = true; another_level;) {
    another_level = false;
    auto row = connection.prepare(task_sql::due, type, below);
    for (; most > 0 && row.step(); --most) {
      if (row.integer(2) > now.count()) {  // nor is the rest of this priority due
        below = static_cast<int>(row.integer(1));
        another_level = true;
        break;
      }
      Columns c(row);
      LeasedTask& task = tasks.emplace_back();
      task.type = type;
      task.key.id.value = c.number();
      task.priority = c.small_number();
      task.run_at_us = c.number();
      task.key.version.value = c.number() + 1;
      task.payload = c.view();
      task.progress = c.view();
      task.attempts = c.small_number() + 1;
      task.max_attempts = c.small_number();
      task.crash_count = c.small_number();
    }
  }
}

/// One call of lease(), inside a transaction.
class LeaseCall {
 public:
  LeaseCall(Connection& connection, const LeaseRequest& request)
      : connection_(connection), request_(request), end_(request.duration) {}

  /// Gives each type its share, beginning with the one at `turn`. What some types do not use goes
  /// to the others.
  std::vector<LeasedTask> run(std::size_t turn) {
    const std::size_t types = request_.types.size();
    const std::size_t share = (request_.limit + types - 1) / types;
    std::vector<std::size_t> with_more;
    for (std::size_t i = 0; i < types && missing() > 0; ++i) {
      const std::size_t type = (turn + i) % types;
      if (lease(request_.types[type], share) == share) with_more.push_back(type);
    }
    if (types > 1) {
      for (const std::size_t type : with_more) {
        if (missing() > 0) lease(request_.types[type], missing());
      }
      std::sort(tasks_.begin(), tasks_.end(), [](const auto& a, const auto& b) {
        return std::tuple(-a.priority, a.run_at_us, a.key.id) <
               std::tuple(-b.priority, b.run_at_us, b.key.id);
      });
    }
    return std::move(tasks_);
  }

 private:
  std::size_t missing() const { return request_.limit - tasks_.size(); }

  std::size_t lease(const std::string& type, std::size_t share) {
    const std::size_t before = tasks_.size();
    append_due(tasks_, connection_, type, std::min(share, missing()), end_.now);
    for (auto first = tasks_.begin() + std::ptrdiff_t(before); first != tasks_.end();) {
      const auto end_of_level = std::find_if(first, tasks_.end(), [&](const LeasedTask& task) {
        return task.priority != first->priority;
      });
      lease_level({first, end_of_level});
      first = end_of_level;
    }
    return tasks_.size() - before;
  }

  /// Tasks of one type and priority, from the first one that is due.
  void lease_level(std::span<const LeasedTask> level) {
    if (level.size() <= few) {
      for (const LeasedTask& task : level) {
        connection_.execute(task_sql::lease, task.key.id.value, request_.worker, end_.deadline,
                            end_.expiry, end_.now);
      }
      return;
    }
    const auto [lowest, highest] = std::minmax_element(
        level.begin(), level.end(),
        [](const LeasedTask& a, const LeasedTask& b) { return a.key.id.value < b.key.id.value; });
    const std::int64_t first = lowest->key.id.value;
    const std::int64_t last = highest->key.id.value;
    const bool one_after_another = last - first + 1 == std::ssize(level);
    const auto leased =
        one_after_another  // as in most queues, and faster
            ? connection_.execute(task_sql::lease_range, first, last, request_.worker,
                                  end_.deadline, end_.expiry, end_.now)
            : connection_.execute(task_sql::lease_level, level.front().type, level.front().priority,
                                  level.size(), request_.worker, end_.deadline, end_.expiry,
                                  end_.now);
    if (leased != std::int64_t(level.size())) {
      throw std::logic_error("leased " + std::to_string(leased) + " tasks instead of " +
                             std::to_string(level.size()));
    }
  }

  Connection& connection_;
  const LeaseRequest& request_;
  const LeaseEnd end_;
  std::vector<LeasedTask> tasks_;
};

}  // namespace

std::vector<LeasedTask> SqliteTaskStore::lease(const LeaseRequest& request) {
  // After a lease that found nothing, only read at first: idle workers that poll must not keep
  // others from writing.
  if (found_nothing_.load(std::memory_order_relaxed)) {
    const bool any = database_->read([&](Connection& connection) {
      const auto now = wall_clock();
      return std::any_of(request.types.begin(), request.types.end(), [&](const auto& type) {
        std::vector<LeasedTask> due;
        append_due(due, connection, type, 1, now);
        return !due.empty();
      });
    });
    if (!any) return {};
  }
  const std::size_t turn = turns_.next(request.types);
  auto tasks = database_->write(
      [&](Connection& connection) { return LeaseCall(connection, request).run(turn); });
  found_nothing_.store(tasks.empty(), std::memory_order_relaxed);
  return tasks;
}

}  // namespace leasehold::inline v0::sqlite
