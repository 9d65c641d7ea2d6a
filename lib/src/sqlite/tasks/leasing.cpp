#include <algorithm>
#include <iterator>
#include <limits>
#include <span>
#include <stdexcept>
#include <tuple>

#include "sqlite/tasks/columns.hpp"
#include "sqlite/tasks/lease_end.hpp"
#include "sqlite/tasks/sqlite_task_store.hpp"
#include "sqlite_task_sql.hpp"
#include "support/random.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using std::chrono::microseconds;

/// How much one call may still return.
struct Room {
  std::size_t tasks;
  std::size_t bytes;  ///< of payloads and progress; the first task may be larger
  /// Suspects are leased as started. Whoever cannot start them at once only risks that they count a
  /// crash.
  std::size_t suspects;
};

/// Appends the first tasks of a type that are due, in the order in which they are leased, with the
/// versions and attempts that they will have then. Takes them from the room that is left, and makes
/// that zero if the next task does not fit.
void append_due(std::vector<LeasedTask>& tasks, Connection& connection, const std::string& type,
                std::size_t most, Room& room, microseconds now) {
  int below = std::numeric_limits<int>::max();
  for (bool another_level = true; another_level;) {
    another_level = false;
    auto row = connection.prepare(task_sql::due, type, below);
    for (; most > 0 && room.tasks > 0 && row.step(); --most, --room.tasks) {
      if (row.integer(2) > now.count()) {  // nor is the rest of this priority due
        below = static_cast<int>(row.integer(1));
        another_level = true;
        break;
      }
      const std::size_t bytes = row.text(4).size() + row.text(5).size();
      const bool suspect = row.integer(9) != 0;
      if ((bytes > room.bytes && !tasks.empty()) || (suspect && room.suspects == 0)) {
        room.tasks = 0;
        return;
      }
      if (suspect) --room.suspects;
      room.bytes -= std::min(bytes, room.bytes);
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
      task.suspect = suspect;
    }
  }
}

/// One call of lease(), inside a transaction.
class LeaseCall {
 public:
  LeaseCall(Connection& connection, const LeaseRequest& request, LeaseId lease, std::size_t starts)
      : connection_(connection),
        request_(request),
        lease_(lease),
        starts_(starts),
        end_(request.duration),
        room_{request.limit, request.max_bytes, std::max<std::size_t>(starts, 1)} {}

  /// Gives each type its share, beginning with the one at `turn`. What some types do not use goes
  /// to the others.
  std::vector<LeasedTask> run(std::size_t turn) {
    const std::size_t types = request_.types.size();
    const std::size_t share = (request_.limit + types - 1) / types;
    std::vector<std::size_t> with_more;
    for (std::size_t i = 0; i < types && room_.tasks > 0; ++i) {
      const std::size_t type = (turn + i) % types;
      if (lease(request_.types[type], share) == share) with_more.push_back(type);
    }
    if (types > 1) {
      for (const std::size_t type : with_more) {
        lease(request_.types[type], room_.tasks);
      }
      std::sort(tasks_.begin(), tasks_.end(), [](const auto& a, const auto& b) {
        return std::tuple(-a.priority, a.run_at_us, a.key.id) <
               std::tuple(-b.priority, b.run_at_us, b.key.id);
      });
    }
    if (!all_start()) start_first();
    return std::move(tasks_);
  }

 private:
  bool all_start() const { return starts_ >= request_.limit; }

  std::size_t lease(const std::string& type, std::size_t share) {
    const std::size_t before = tasks_.size();
    append_due(tasks_, connection_, type, share, room_, end_.now);
    for (auto first = tasks_.begin() + std::ptrdiff_t(before); first != tasks_.end();) {
      const auto end_of_level = std::find_if(first, tasks_.end(), [&](const LeasedTask& task) {
        return task.priority != first->priority;
      });
      for (LeasedTask& task : std::span(first, end_of_level)) {
        task.key.lease = lease_;
        task.started = all_start() || task.suspect;
      }
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
                            end_.expiry, end_.now, lease_.value, all_start());
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
                                  end_.deadline, end_.expiry, end_.now, lease_.value, all_start())
            : connection_.execute(task_sql::lease_level, level.front().type, level.front().priority,
                                  level.size(), request_.worker, end_.deadline, end_.expiry,
                                  end_.now, lease_.value, all_start());
    if (leased != std::int64_t(level.size())) {
      throw std::logic_error("leased " + std::to_string(leased) + " tasks instead of " +
                             std::to_string(level.size()));
    }
  }

  /// Which tasks are the first is known only when all types have had their share.
  void start_first() {
    const auto end = tasks_.begin() + std::ptrdiff_t(std::min(starts_, tasks_.size()));
    for (auto first = tasks_.begin(); first != end;) {
      std::int64_t next = first->key.id.value;
      const auto last = std::find_if(
          first, end, [&](const LeasedTask& task) { return task.key.id.value != next++; });
      connection_.execute(task_sql::start, first->key.id.value, std::prev(last)->key.id.value);
      for (LeasedTask& task : std::span(first, last)) task.started = true;
      first = last;
    }
  }

  Connection& connection_;
  const LeaseRequest& request_;
  const LeaseId lease_;
  const std::size_t starts_;
  const LeaseEnd end_;
  Room room_;
  std::vector<LeasedTask> tasks_;
};

}  // namespace

std::vector<LeasedTask> SqliteTaskStore::lease(const LeaseRequest& request, std::size_t starts) {
  // After a lease that found nothing, only read at first: idle workers that poll must not keep
  // others from writing.
  if (found_nothing_.load(std::memory_order_relaxed)) {
    const bool any = database_->read([&](Connection& connection) {
      const auto now = wall_clock();
      return std::any_of(request.types.begin(), request.types.end(), [&](const auto& type) {
        std::vector<LeasedTask> due;
        Room room{.tasks = 1, .bytes = 0, .suspects = 1};
        append_due(due, connection, type, 1, room, now);
        return !due.empty();
      });
    });
    if (!any) return {};
  }
  const std::size_t turn = turns_.next(request.types);
  auto tasks = database_->write([&](Connection& connection) {
    return LeaseCall(connection, request, LeaseId{random_number()}, starts).run(turn);
  });
  found_nothing_.store(tasks.empty(), std::memory_order_relaxed);
  return tasks;
}

}  // namespace leasehold::inline v0::sqlite
