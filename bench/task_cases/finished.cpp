#include <algorithm>
#include <filesystem>
#include <leasehold/recovery.hpp>
#include <leasehold/task_queue.hpp>
#include <stdexcept>

#include "duel.hpp"
#include "postgres_tools.hpp"
#include "task_cases/cases.hpp"

namespace leasehold::bench {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t batch = 100;
constexpr std::size_t types = 4;
constexpr std::size_t living = 20'000;
constexpr std::size_t expired = 20'000;
constexpr double bytes_of_a_row = 600;  // table, indexes and WAL: more than seen

/// As many as asked for, unless that would take more than half of the disk that is free.
std::size_t rows_that_fit(std::size_t rows) {
  const auto free = std::filesystem::space(std::filesystem::temp_directory_path()).available;
  return std::min(rows, static_cast<std::size_t>(static_cast<double>(free) / 2 / bytes_of_a_row));
}

double seconds_since(steady_clock::time_point begun) {
  return std::chrono::duration<double>(steady_clock::now() - begun).count();
}

/// A queue whose completed tasks are kept, and whose depth stays the same.
class Flow {
 public:
  Flow(const BenchDatabase& database, std::string schema)
      : database_(database),
        schema_(std::move(schema)),
        queue_(database.uri(), {.postgres = {.connections = 1, .schema = schema_}}),
        recovery_(queue_) {
    request_.limit = batch;
    for (std::size_t i = 0; i < types; ++i) request_.types.push_back("bench" + std::to_string(i));
    for (std::size_t i = 0; i < batch; ++i) {
      NewTask task;
      task.type = request_.types[i % types];
      replacement_.push_back(std::move(task));
    }
  }

  /// Only what brings the table back to its depth does not count.
  Work lease_and_complete(std::chrono::milliseconds slice) {
    database_.fill(schema_, living, types);
    Work work;
    for (const auto end = steady_clock::now() + slice; steady_clock::now() < end;) {
      const auto begun = steady_clock::now();
      auto leases = queue_.lease(request_);
      if (leases.size() != batch) throw std::runtime_error("the table ran dry");
      if (!queue_.complete(leases).empty()) throw std::runtime_error("a lease was lost");
      work.seconds += seconds_since(begun);
      work.operations += 1;
      queue_.enqueue(replacement_);
    }
    return work;
  }

  Work recover() {
    database_.run("fill_expired.sql", {{"schema", schema_}, {"rows", std::to_string(expired)}});
    const auto begun = steady_clock::now();
    if (recovery_.run_once().requeued != expired) throw std::runtime_error("not all recovered");
    return {double{expired}, seconds_since(begun)};
  }

  double milliseconds_of(void (*call)(TaskQueue&)) {
    const auto begun = steady_clock::now();
    call(queue_);
    return 1000 * seconds_since(begun);
  }

 private:
  const BenchDatabase& database_;
  const std::string schema_;
  TaskQueue queue_;
  Recovery recovery_;
  LeaseRequest request_;
  std::vector<NewTask> replacement_;
};

}  // namespace

Result finished_50M(TaskBench& bench, const std::string& name) {
  const std::size_t rows = rows_that_fit(bench.options.quick ? 5'000'000 : 50'000'000);
  const BenchDatabase database(bench.server);
  database.add_schema("many");
  bench.progress.show(name + ": adding " + std::to_string(rows) + " finished tasks");
  const double bytes = std::stod(database.run(
      "fill_finished.sql",
      {{"schema", "many"}, {"rows", std::to_string(rows)}, {"next_id", std::to_string(rows + 1)}}));
  Flow none(database, "leasehold");
  Flow many(database, "many");
  // The ratios are of times, so that the rates change sides.
  const Duel work = fight(
      bench.options, name, bench.progress,
      [&](auto slice) { return none.lease_and_complete(slice); },
      [&](auto slice) { return many.lease_and_complete(slice); });
  const Duel recovery = fight(
      bench.options, name + " (recovery)", bench.progress, [&](auto) { return none.recover(); },
      [&](auto) { return many.recover(); });
  const auto counts = [](TaskQueue& queue) { queue.counts(); };
  const auto health = [](TaskQueue& queue) { queue.health(); };
  return {.name = name,
          .unit = "ms to lease and complete 100 tasks of 4 types, completed tasks kept",
          .ours = 1000 / work.reference.rate(),
          .reference = 1000 / work.ours.rate(),
          .reference_name = "the same without finished tasks",
          .ratio = work.ratio,
          .target = 1.1,
          .goal = Goal::at_most,
          .extra = {{"finished_tasks", static_cast<double>(rows)},
                    {"finished_megabytes", bytes / 1e6},
                    {"recovered_per_second", recovery.reference.rate()},
                    {"reference_recovered_per_second", recovery.ours.rate()},
                    {"recover_ratio", recovery.ratio},
                    {"counts_ms", many.milliseconds_of(counts)},
                    {"reference_counts_ms", none.milliseconds_of(counts)},
                    {"health_ms", many.milliseconds_of(health)},
                    {"reference_health_ms", none.milliseconds_of(health)}},
          .at_most = {{"recover_ratio", 1.1}}};
}

}  // namespace leasehold::bench
