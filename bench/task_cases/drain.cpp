#include <leasehold/task_queue.hpp>
#include <stdexcept>

#include "duel.hpp"
#include "postgres_tools.hpp"
#include "task_cases/cases.hpp"

namespace leasehold::bench {
namespace {

using Commits = BenchDatabase::Commits;

struct Drain {
  std::size_t threads;
  std::size_t batch;
  std::size_t depth;   ///< of both tables at the beginning of each turn; more than a turn drains
  std::string script;  ///< the same for pgbench
};

Step drain_step(TaskQueue& queue, std::size_t batch) {
  return [&queue, request = LeaseRequest{.types = {"bench0"}, .limit = batch}] {
    auto leases = queue.lease(request);
    if (leases.empty()) throw std::runtime_error("the table ran dry");
    if (!queue.complete(leases).empty()) throw std::runtime_error("a lease was lost");
    return leases.size();
  };
}

struct Outcome {
  Duel duel;
  double our_wal = 0;  ///< bytes a task
  double reference_wal = 0;
};

/// With the default retention, completed tasks are moved to another table.
Outcome drain(TaskBench& bench, const std::string& name, const Drain& drain, Commits commits,
              const Retention& retention = TaskQueueOptions{}.retention) {
  bench.progress.show(name + ": filling");
  const BenchDatabase database(bench.server, commits);
  TaskQueue queue(database.uri(),
                  {.postgres = {.connections = drain.threads}, .retention = retention});
  Crew crew(std::vector<Step>(drain.threads, drain_step(queue, drain.batch)));

  Outcome outcome;
  double our_tasks = 0;
  double reference_tasks = 0;
  // Each turn begins with a table that is full and vacuumed.
  const auto turn = [&](const std::string& schema, double& wal, double& tasks, auto&& run) {
    database.fill(schema, drain.depth);
    const double before = database.wal_bytes();
    const Work work = run();
    wal += database.wal_bytes() - before;
    tasks += work.operations;
    return work;
  };
  outcome.duel = fight(
      bench.options, name, bench.progress,
      [&](auto slice) {
        return turn("leasehold", outcome.our_wal, our_tasks, [&] { return crew.run(slice); });
      },
      [&](auto slice) {
        return turn("raw", outcome.reference_wal, reference_tasks, [&] {
          return database.pgbench({drain.script, drain.threads, drain.batch}, slice);
        });
      });
  outcome.our_wal /= our_tasks;
  outcome.reference_wal /= reference_tasks;
  return outcome;
}

Result drain_variants(TaskBench& bench, const std::string& name, const Drain& how, double target) {
  const Outcome durable = drain(bench, name, how, Commits::wait);
  const Outcome deleting =
      drain(bench, name + " (deleted, not moved)", how, Commits::wait, Retention::delete_at_once());
  // Without the disk's share: what the library itself costs.
  const Outcome fast = drain(bench, name + " (commits do not wait)", how, Commits::do_not_wait);
  return {.name = name,
          .unit = "tasks leased and completed/s, with the default retention",
          .ours = durable.duel.ours.rate(),
          .reference = durable.duel.reference.rate(),
          .reference_name = "pgbench, bench/sql/" + how.script + ", which deletes",
          .ratio = durable.duel.ratio,
          .target = target,
          .extra = {{"wal_bytes_per_task", durable.our_wal},
                    {"reference_wal_bytes_per_task", durable.reference_wal},
                    {"ours_if_deleted", deleting.duel.ours.rate()},
                    {"reference_if_deleted", deleting.duel.reference.rate()},
                    {"ratio_if_deleted", deleting.duel.ratio},
                    {"wal_bytes_per_task_if_deleted", deleting.our_wal},
                    {"ours_if_commits_do_not_wait", fast.duel.ours.rate()},
                    {"reference_if_commits_do_not_wait", fast.duel.reference.rate()},
                    {"ratio_if_commits_do_not_wait", fast.duel.ratio}}};
}

}  // namespace

Result drain_batched(TaskBench& bench, const std::string& name) {
  return drain_variants(bench, name,
                        {.threads = 4, .batch = 500, .depth = 300'000, .script = "drain_batch.sql"},
                        1.0);
}

Result drain_single(TaskBench& bench, const std::string& name) {
  return drain_variants(
      bench, name, {.threads = 8, .batch = 1, .depth = 50'000, .script = "drain_one.sql"}, 1.0);
}

}  // namespace leasehold::bench
