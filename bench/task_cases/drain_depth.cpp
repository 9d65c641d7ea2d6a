#include <leasehold/task_queue.hpp>
#include <stdexcept>

#include "duel.hpp"
#include "postgres_tools.hpp"
#include "task_cases/cases.hpp"

namespace leasehold::bench {
namespace {

using Commits = BenchDatabase::Commits;
using std::chrono::milliseconds;

constexpr std::size_t threads = 8;
constexpr std::size_t shallow_depth = 50'000;

/// What happens between the load and the work.
enum class After { load, checkpoint };

/// A table of our own and one for pgbench. Both begin each turn with as many tasks as they should
/// have, loaded from nothing.
class Place {
 public:
  Place(TaskBench& bench, std::size_t depth, Commits commits)
      : depth_(depth),
        database_(bench.server, commits),
        queue_(database_.uri(),
               {.postgres = {.connections = threads}, .retention = Retention::delete_at_once()}),
        crew_(std::vector<Step>(threads, step())) {}

  Work ours(After after, milliseconds slice) {
    load("leasehold", after);
    return crew_.run(slice);
  }
  Work pgbench(After after, milliseconds slice) {
    load("raw", after);
    return database_.pgbench({"drain_one.sql", threads, 1}, slice);
  }

 private:
  void load(const std::string& schema, After after) {
    database_.run("empty.sql", {{"schema", schema}});
    database_.fill(schema, depth_);
    if (after == After::checkpoint) database_.run("checkpoint.sql");
  }
  Step step() {
    return [this, request = LeaseRequest{.types = {"bench0"}}] {
      auto leases = queue_.lease(request);
      if (leases.empty()) throw std::runtime_error("the table ran dry");
      if (!queue_.complete(leases).empty()) throw std::runtime_error("a lease was lost");
      return leases.size();
    };
  }

  const std::size_t depth_;
  const BenchDatabase database_;
  TaskQueue queue_;
  Crew crew_;
};

}  // namespace

Result drain_single_depth(TaskBench& bench, const std::string& name) {
  const std::size_t deep_depth = bench.options.quick ? 200'000 : 500'000;
  Place shallow(bench, shallow_depth, Commits::wait);
  Place deep(bench, deep_depth, Commits::wait);
  const auto compare = [&](const std::string& what, auto&& run) {
    return fight(
        bench.options, name + " (" + what + ")", bench.progress,
        [&](auto slice) { return run(deep, slice); },
        [&](auto slice) { return run(shallow, slice); });
  };
  const Duel settled = compare("after a checkpoint", [](Place& place, auto slice) {
    return place.ours(After::checkpoint, slice);
  });
  const Duel loaded = compare(
      "after the load", [](Place& place, auto slice) { return place.ours(After::load, slice); });
  const Duel pgbench = compare("pgbench after the load", [](Place& place, auto slice) {
    return place.pgbench(After::load, slice);
  });
  Place shallow_memory(bench, shallow_depth, Commits::do_not_wait);
  Place deep_memory(bench, deep_depth, Commits::do_not_wait);
  const Duel memory = fight(
      bench.options, name + " (commits do not wait)", bench.progress,
      [&](auto slice) { return deep_memory.ours(After::load, slice); },
      [&](auto slice) { return shallow_memory.ours(After::load, slice); });
  return {.name = name,
          .unit = "tasks leased and completed/s, one by one, after a checkpoint",
          .ours = settled.ours.rate(),
          .reference = settled.reference.rate(),
          .reference_name = "the same with 50,000 tasks in the table",
          .ratio = settled.ratio,
          .target = 0.9,
          .extra = {{"depth", static_cast<double>(deep_depth)},
                    {"deep_after_the_load", loaded.ours.rate()},
                    {"shallow_after_the_load", loaded.reference.rate()},
                    {"ratio_after_the_load", loaded.ratio},
                    {"pgbench_deep_after_the_load", pgbench.ours.rate()},
                    {"pgbench_shallow_after_the_load", pgbench.reference.rate()},
                    {"pgbench_ratio_after_the_load", pgbench.ratio},
                    {"ratio_if_commits_do_not_wait", memory.ratio}}};
}

}  // namespace leasehold::bench
