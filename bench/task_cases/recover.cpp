#include <algorithm>
#include <leasehold/recovery.hpp>
#include <leasehold/task_queue.hpp>
#include <stdexcept>

#include "duel.hpp"
#include "postgres_tools.hpp"
#include "task_cases/cases.hpp"

namespace leasehold::bench {
namespace {

constexpr std::size_t expired_leases = 100'000;
constexpr int most_rounds = 3;

}  // namespace

Result recover_100k(TaskBench& bench, const std::string& name) {
  const BenchDatabase database(bench.server);
  database.add_schema("plain");  // the same tables
  TaskQueue queue(database.uri());
  Recovery recovery(queue);
  const auto fill = [&](const std::string& schema) {
    database.run("fill_expired.sql",
                 {{"schema", schema}, {"rows", std::to_string(expired_leases)}});
  };
  const auto ours = [&](auto) -> Work {
    fill("leasehold");
    const auto begun = std::chrono::steady_clock::now();
    const auto report = recovery.run_once();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    if (report.requeued != expired_leases) throw std::runtime_error("not all were recovered");
    return {double{expired_leases}, taken.count()};
  };
  const auto reference = [&](auto) -> Work {
    fill("plain");
    return {double{expired_leases},
            database.seconds_of("recover_plainly.sql", {{"schema", "plain"}})};
  };
  Options options = bench.options;
  options.time = 2 * options.slice * std::min(options.rounds(), most_rounds);
  const Duel duel = fight(options, name, bench.progress, ours, reference);
  return {.name = name,
          .unit = "expired leases taken back/s, in batches of 1,000, each reported",
          .ours = duel.ours.rate(),
          .reference = duel.reference.rate(),
          .reference_name = "psql, one UPDATE without a report",
          .ratio = duel.ratio,
          .target = 0.9};
}

}  // namespace leasehold::bench
