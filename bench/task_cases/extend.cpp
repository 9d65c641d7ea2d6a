#include <leasehold/task_queue.hpp>
#include <stdexcept>

#include "postgres_tools.hpp"
#include "task_cases/cases.hpp"

namespace leasehold::bench {
namespace {

constexpr std::size_t extended_leases = 5'000;

}  // namespace

Result extend_5000(TaskBench& bench, const std::string& name) {
  const int rounds = bench.options.rounds();
  const BenchDatabase database(bench.server);
  bench.progress.show(name + ": filling");
  database.fill("leasehold", 10 * extended_leases);
  double wal = 0;
  std::chrono::duration<double, std::milli> taken{0};
  {
    TaskQueue queue(database.uri());
    auto leases = queue.lease({.types = {"bench0"}, .limit = extended_leases});
    if (leases.size() != extended_leases) throw std::runtime_error("not all were leased");
    for (int round = 0; round < rounds; ++round) {
      bench.progress.show(name + ": round " + std::to_string(round + 1));
      const double wal_before = database.wal_bytes();
      const auto begun = std::chrono::steady_clock::now();
      if (!queue.extend(leases).empty()) throw std::runtime_error("a lease was lost");
      taken += std::chrono::steady_clock::now() - begun;
      wal += database.wal_bytes() - wal_before;
    }
    for (auto& lease : leases) lease.abandon();
  }  // its connections are closed, so that they have reported their statistics
  const std::string updates = database.run("updates.sql", {{"schema", "leasehold"}});
  const double hot = std::stod(updates);
  // Leasing them was an update each too, which is never HOT.
  const double all = std::stod(updates.substr(updates.find('|') + 1)) - double{extended_leases};
  return {.name = name,
          .unit = "renewals that touched no index (HOT)",
          .ours = hot / rounds,
          .reference = all / rounds,
          .reference_name = "all renewals",
          .ratio = hot / all,
          .target = 0.95,
          .extra = {{"ms", taken.count() / rounds}, {"wal_bytes", wal / rounds}}};
}

}  // namespace leasehold::bench
