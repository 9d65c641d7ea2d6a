#include "snapshot_view.hpp"

#include <algorithm>

#include "records.hpp"
#include "table.hpp"
#include "text.hpp"

namespace leasehold::cli {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

ordered_json milliseconds_or_null(const std::optional<milliseconds>& time) {
  return time ? ordered_json(time->count()) : ordered_json();
}

/// The numbers of one type of task.
struct TypeRow {
  std::map<TaskState, TaskCount> states;
  std::uint64_t total = 0;
};

std::string number_of(const TypeRow& row, TaskState state) {
  const auto found = row.states.find(state);
  if (found == row.states.end()) return "·";
  return with_commas(found->second.number) + (found->second.more ? "+" : "");
}

/// Sorts rows by name, or the largest first.
template <typename Row, typename Number>
std::vector<std::pair<std::string, Row>> sorted(const std::map<std::string, Row>& rows,
                                                SortBy sort_by, Number number) {
  std::vector<std::pair<std::string, Row>> result(rows.begin(), rows.end());
  if (sort_by == SortBy::number) {
    std::ranges::stable_sort(
        result, [&](const auto& a, const auto& b) { return number(a.second) > number(b.second); });
  }
  return result;
}

std::string more_of(std::size_t all, std::size_t shown) {
  return all > shown ? "… and " + with_commas(all - shown) + " more\n" : "";
}

std::string heading(const Terminal& terminal, const std::string& name, const std::string& where) {
  return terminal.paint(Colour::bold, name) + "  " + terminal.paint(Colour::dim, printable(where)) +
         "\n";
}

std::string missing(const std::string& how, const std::string& error, const Terminal& terminal) {
  return error.empty() ? "no address: set " + how + "\n"
                       : terminal.paint(Colour::red, printable(error)) + "\n";
}

std::string render_locks(const Snapshot& snapshot, const Terminal& terminal, std::size_t rows,
                         SortBy sort_by) {
  std::string out = heading(terminal, "LOCKS", snapshot.locks_where);
  if (!snapshot.locks) {
    return out + missing("--redis or LEASEHOLD_REDIS_URL", snapshot.locks_error, terminal);
  }
  const LocksSeen& seen = *snapshot.locks;
  out += with_commas(seen.held) + " held, " + with_commas(seen.waiting) + " waiting, " +
         terminal.paint(seen.stale > 0 ? Colour::yellow : Colour::plain,
                        with_commas(seen.stale) + " stale") +
         "\n";
  if (seen.records.empty() || rows == 0) return out;
  std::vector<const LockRecord*> locks;
  for (const LockRecord& lock : seen.records) locks.push_back(&lock);
  std::ranges::sort(locks, [&](const LockRecord* a, const LockRecord* b) {
    if (sort_by == SortBy::number && a->waiter_count != b->waiter_count) {
      return a->waiter_count > b->waiter_count;
    }
    return a->name < b->name;
  });
  const std::size_t shown = std::min(rows, locks.size());
  Table table({{"NAME"},
               {"STATE"},
               {"HELD FOR", Column::Align::right},
               {"WAITING", Column::Align::right},
               {"HOLDER"}});
  for (std::size_t i = 0; i < shown; ++i) {
    const LockRecord& lock = *locks[i];
    table.add({lock.name,
               {to_string(lock.state), colour_of(lock.state)},
               lock.kind == LockKind::shared ? "" : brief(lock.age),
               with_commas(lock.waiter_count),
               holder_of(lock)});
  }
  return out + "\n" + table.render(terminal) + more_of(seen.held + seen.stale, shown);
}

std::string render_types(const TasksSeen& seen, const Terminal& terminal, std::size_t rows,
                         SortBy sort_by) {
  std::map<std::string, TypeRow> types;
  for (const TaskCount& count : seen.counts) {
    types[count.type].states[count.state] = count;
    types[count.type].total += count.number;
  }
  if (types.empty()) return "no tasks\n";
  Table table({{"TYPE"},
               {"PENDING", Column::Align::right},
               {"LEASED", Column::Align::right},
               {"COMPLETED", Column::Align::right},
               {"DEAD", Column::Align::right},
               {"CANCELLED", Column::Align::right}});
  const auto all = sorted(types, sort_by, [](const TypeRow& row) { return row.total; });
  const std::size_t shown = std::min(rows, all.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& [type, row] = all[i];
    table.add({type,
               number_of(row, TaskState::pending),
               {number_of(row, TaskState::leased), Colour::blue},
               {number_of(row, TaskState::completed), Colour::green},
               {number_of(row, TaskState::dead), Colour::red},
               {number_of(row, TaskState::cancelled), Colour::dim}});
  }
  return table.render(terminal) + more_of(all.size(), shown);
}

std::string render_workers(const TasksSeen& seen, const Terminal& terminal, std::size_t rows,
                           SortBy sort_by) {
  if (seen.workers.empty()) return "";
  Table table({{"WORKER"}, {"LEASES", Column::Align::right}, {"EXPIRED", Column::Align::right}});
  const auto all = sorted(seen.workers, sort_by, [](const WorkerSeen& row) { return row.leases; });
  const std::size_t shown = std::min(rows, all.size());
  for (std::size_t i = 0; i < shown; ++i) {
    table.add({all[i].first,
               with_commas(all[i].second.leases),
               {all[i].second.expired == 0 ? "·" : with_commas(all[i].second.expired),
                all[i].second.expired == 0 ? Colour::plain : Colour::yellow}});
  }
  return "\n" + table.render(terminal) + more_of(all.size(), shown);
}

std::string render_tasks(const Snapshot& snapshot, const Terminal& terminal, std::size_t rows,
                         SortBy sort_by) {
  std::string out = heading(terminal, "TASKS", snapshot.tasks_where);
  if (!snapshot.tasks) {
    return out + missing("--database or LEASEHOLD_DATABASE_URL", snapshot.tasks_error, terminal);
  }
  const TasksSeen& seen = *snapshot.tasks;
  out += seen.health.oldest_ready ? "oldest ready: " + brief(*seen.health.oldest_ready)
                                  : "nothing is due";
  out += ", " + with_commas(seen.workers.size()) + " workers seen, ";
  std::string expired = with_commas(seen.expired_leases) + " expired leases";
  if (seen.health.oldest_expired) expired += " (oldest " + brief(*seen.health.oldest_expired) + ")";
  out += terminal.paint(seen.expired_leases > 0 ? Colour::yellow : Colour::plain, expired);
  const QueueHealth& health = seen.health;
  out += ", " + with_commas(health.recovered_requeued + health.recovered_dead) +
         " recovered so far (" + with_commas(health.recovered_dead) + " dead)\n";
  out += "\n" + render_types(seen, terminal, rows, sort_by) +
         render_workers(seen, terminal, rows, sort_by);
  if (seen.leases_cut_off)
    out += "only the first " + with_commas(TasksSeen::most_leases) + " leases were counted\n";
  return out;
}

}  // namespace

ordered_json as_json(const Snapshot& snapshot) {
  ordered_json locks;
  if (!snapshot.locks_where.empty()) locks["where"] = snapshot.locks_where;
  if (!snapshot.locks_error.empty()) locks["error"] = snapshot.locks_error;
  if (snapshot.locks) {
    locks["held"] = snapshot.locks->held;
    locks["stale"] = snapshot.locks->stale;
    locks["waiting"] = snapshot.locks->waiting;
  }
  ordered_json tasks;
  if (!snapshot.tasks_where.empty()) tasks["where"] = snapshot.tasks_where;
  if (!snapshot.tasks_error.empty()) tasks["error"] = snapshot.tasks_error;
  if (snapshot.tasks) {
    const TasksSeen& seen = *snapshot.tasks;
    ordered_json counts = ordered_json::array();
    for (const TaskCount& count : seen.counts) {
      counts.push_back({{"type", count.type},
                        {"state", to_string(count.state)},
                        {"number", count.number},
                        {"more", count.more}});
    }
    ordered_json workers = ordered_json::array();
    for (const auto& [name, worker] : seen.workers) {
      workers.push_back({{"name", name}, {"leases", worker.leases}, {"expired", worker.expired}});
    }
    tasks["counts"] = counts;
    tasks["oldest_ready_ms"] = milliseconds_or_null(seen.health.oldest_ready);
    tasks["expired_leases"] = seen.expired_leases;
    tasks["oldest_expired_ms"] = milliseconds_or_null(seen.health.oldest_expired);
    tasks["recovered"] = {{"requeued", seen.health.recovered_requeued},
                          {"dead", seen.health.recovered_dead}};
    tasks["workers"] = workers;
    tasks["leases_cut_off"] = seen.leases_cut_off;
  }
  return {{"locks", locks}, {"tasks", tasks}};
}

std::string render(const Snapshot& snapshot, const Terminal& terminal, std::size_t rows,
                   SortBy sort_by) {
  return render_locks(snapshot, terminal, rows, sort_by) + "\n" +
         render_tasks(snapshot, terminal, rows, sort_by);
}

}  // namespace leasehold::cli
