#include <algorithm>
#include <leasehold/task_queue.hpp>
#include <sstream>
#include <stdexcept>

#include "duel.hpp"
#include "postgres_tools.hpp"
#include "task_cases/cases.hpp"

namespace leasehold::bench {
namespace {

constexpr std::size_t threads = 4;
constexpr std::size_t batch = 500;
constexpr double megabyte = 1e6;
constexpr std::chrono::minutes longest{20};

/// Of the task table.
struct Size {
  double table = 0;  ///< bytes
  double indexes = 0;
  double dead_rows = 0;
  double vacuums = 0;

  double all() const { return table + indexes; }
};

Size size_of_tasks(const BenchDatabase& database) {
  std::string text = database.run("table_size.sql", {{"schema", "leasehold"}});
  std::replace(text.begin(), text.end(), '|', ' ');
  std::istringstream fields(text);
  Size size;
  fields >> size.table >> size.indexes >> size.dead_rows >> size.vacuums;
  if (!fields) throw std::runtime_error("no size of the table: " + text);
  return size;
}

/// Replaces the tasks that it leases and completes, so that the depth stays the same.
Step flow_step(TaskQueue& queue) {
  std::vector<NewTask> tasks(batch);
  for (std::size_t i = 0; i < batch; ++i) {
    tasks[i].type = "bench0";
    tasks[i].payload = R"({"n":)" + std::to_string(i) + R"(,"to":"somebody@example.com"})";
  }
  return [&queue, tasks = std::move(tasks),
          request = LeaseRequest{.types = {"bench0"}, .limit = batch}] {
    queue.enqueue(tasks);
    auto leases = queue.lease(request);
    if (leases.empty()) throw std::runtime_error("the table ran dry");
    queue.complete(leases);
    return leases.size();
  };
}

}  // namespace

Result bloat(TaskBench& bench, const std::string& name) {
  const double tasks = bench.options.quick ? 500'000 : 5'000'000;
  // Autovacuum looks after a database once a minute. From the second one on, the size should stay.
  const double vacuums = bench.options.quick ? 0 : 4;
  const std::size_t depth = bench.options.quick ? 50'000 : 500'000;
  const BenchDatabase database(bench.server);
  bench.progress.show(name + ": filling");
  database.fill("leasehold", depth);
  const Size fresh = size_of_tasks(database);

  TaskQueue queue(database.uri(), {.postgres = {.connections = threads}});
  Crew crew(std::vector<Step>(threads, flow_step(queue)));
  Size end;
  Size largest;
  double largest_at_first = fresh.all();
  double most_dead_rows = 0;
  Work done;
  for (const auto until = std::chrono::steady_clock::now() + longest;
       (done.operations < tasks || end.vacuums < vacuums) &&
       std::chrono::steady_clock::now() < until;) {
    bench.progress.show(name + ": " + std::to_string(static_cast<long>(done.operations)) +
                        " tasks done");
    done += crew.run(std::chrono::seconds{1});
    end = size_of_tasks(database);
    if (end.all() > largest.all()) largest = end;
    if (end.vacuums < vacuums / 2) largest_at_first = largest.all();
    most_dead_rows = std::max(most_dead_rows, end.dead_rows);
  }
  std::vector<std::pair<std::string, double>> limits;
  if (vacuums > 0) limits.emplace_back("growth_after_two_vacuums", 1.5);
  return {.name = name,
          .unit = "MB of the task table and its indexes at most, with autovacuum",
          .ours = largest.all() / megabyte,
          .reference = fresh.all() / megabyte,
          .reference_name = "the same number of waiting tasks, just added",
          .ratio = largest.all() / fresh.all(),
          .target = vacuums > 0 ? 10.0 : 0.0,
          .goal = Goal::at_most,
          .extra = {{"tasks_done", done.operations},
                    {"tasks_per_second", done.rate()},
                    {"tasks_waiting", static_cast<double>(depth)},
                    {"largest_table_mb", largest.table / megabyte},
                    {"largest_indexes_mb", largest.indexes / megabyte},
                    {"table_mb_in_the_end", end.table / megabyte},
                    {"indexes_mb_in_the_end", end.indexes / megabyte},
                    {"fresh_table_mb", fresh.table / megabyte},
                    {"fresh_indexes_mb", fresh.indexes / megabyte},
                    {"most_dead_rows", most_dead_rows},
                    {"dead_rows_in_the_end", end.dead_rows},
                    {"autovacuums", end.vacuums},
                    {"growth_after_two_vacuums", largest.all() / largest_at_first}},
          .at_most = limits};
}

}  // namespace leasehold::bench
