#include <leasehold/task_queue.hpp>
#include <stdexcept>

#include "duel.hpp"
#include "postgres_tools.hpp"
#include "task_cases/cases.hpp"

namespace leasehold::bench {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t depth_batch = 100;
constexpr std::size_t types = 4;
constexpr std::size_t shallow_depth = 10'000;

/// Leases from a table whose depth stays the same.
class Leasing {
 public:
  Leasing(const BenchDatabase& database, const std::string& schema)
      : queue_(database.uri(), {.postgres = {.connections = 1, .schema = schema},
                                .retention = Retention::delete_at_once()}) {
    request_.limit = depth_batch;
    for (std::size_t i = 0; i < types; ++i) request_.types.push_back("bench" + std::to_string(i));
    for (std::size_t i = 0; i < depth_batch; ++i) {
      NewTask task;
      task.type = request_.types[i % types];
      replacement_.push_back(std::move(task));
    }
  }

  /// Only the leases count, not what brings the table back to its depth.
  Work run(std::chrono::milliseconds slice) {
    Work work;
    for (const auto end = steady_clock::now() + slice; steady_clock::now() < end;) {
      const auto begun = steady_clock::now();
      auto leases = queue_.lease(request_);
      work.seconds += std::chrono::duration<double>(steady_clock::now() - begun).count();
      work.operations += 1;
      if (leases.size() != depth_batch) throw std::runtime_error("the table ran dry");
      queue_.complete(leases);
      queue_.enqueue(replacement_);
    }
    return work;
  }

 private:
  TaskQueue queue_;
  LeaseRequest request_;
  std::vector<NewTask> replacement_;
};

}  // namespace

Result depth(TaskBench& bench, const std::string& name) {
  const std::size_t deep_depth = bench.options.quick ? 1'000'000 : 10'000'000;
  const BenchDatabase database(bench.server);
  database.add_schema("deep");
  bench.progress.show(name + ": filling a table with " + std::to_string(deep_depth) + " tasks");
  database.fill("leasehold", shallow_depth, types);
  database.fill("deep", deep_depth, types);
  Leasing shallow(database, "leasehold");
  Leasing deep(database, "deep");
  // The ratio is of times, so that the rates change sides.
  const Duel duel = fight(
      bench.options, name, bench.progress, [&](auto slice) { return shallow.run(slice); },
      [&](auto slice) { return deep.run(slice); });
  return {.name = name,
          .unit = "ms to lease 100 tasks of 4 types",
          .ours = 1000 / duel.reference.rate(),
          .reference = 1000 / duel.ours.rate(),
          .reference_name = "the same with 10,000 tasks in the table",
          .ratio = duel.ratio,
          .target = 1.1,
          .goal = Goal::at_most,
          .extra = {{"depth", static_cast<double>(deep_depth)}}};
}

}  // namespace leasehold::bench
