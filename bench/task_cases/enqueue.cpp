#include <leasehold/task_queue.hpp>

#include "duel.hpp"
#include "postgres_tools.hpp"
#include "task_cases/cases.hpp"

namespace leasehold::bench {
namespace {

constexpr std::size_t task_count = 20'000;

std::vector<NewTask> make_tasks() {
  std::vector<NewTask> tasks(task_count);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    tasks[i].type = "bench0";
    tasks[i].payload = R"({"n":)" + std::to_string(i) + R"(,"to":"somebody@example.com"})";
  }
  return tasks;
}

}  // namespace

Result enqueue_bulk(TaskBench& bench, const std::string& name) {
  const BenchDatabase database(bench.server);
  database.add_schema("copied");  // the same tables
  TaskQueue queue(database.uri());
  const auto tasks = make_tasks();
  const auto rows = static_cast<double>(tasks.size());
  const auto ours = [&](auto) -> Work {
    database.run("empty.sql", {{"schema", "leasehold"}});
    const auto begun = std::chrono::steady_clock::now();
    queue.enqueue(tasks);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    return {rows, taken.count()};
  };
  ours(0);
  database.run("copy_rows.sql", {{"schema", "leasehold"}});
  const auto reference = [&](auto) -> Work {
    database.run("empty.sql", {{"schema", "copied"}});
    return {rows, database.seconds_of("copy.sql", {{"schema", "copied"}})};
  };
  const Duel duel = fight(bench.options, name, bench.progress, ours, reference);
  return {.name = name,
          .unit = "tasks added/s, 20,000 in a call",
          .ours = duel.ours.rate(),
          .reference = duel.reference.rate(),
          .reference_name = "psql, COPY of the same rows into the same table",
          .ratio = duel.ratio,
          .target = 0.9};
}

}  // namespace leasehold::bench
