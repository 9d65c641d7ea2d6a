// The speed of task leases, compared with minimal code that uses PostgreSQL directly.
#include <exception>
#include <functional>
#include <iostream>

#include "postgres_tools.hpp"
#include "task_cases/cases.hpp"

namespace {

using leasehold::bench::Result;
using leasehold::bench::TaskBench;

struct Case {
  std::string name;
  std::function<Result(TaskBench&, const std::string& name)> run;
};

const std::vector<Case>& cases() {
  using namespace leasehold::bench;
  static const std::vector<Case> all{
      {"drain_batched", drain_batched},
      {"drain_single", drain_single},
      {"drain_single_depth", drain_single_depth},
      {"enqueue_bulk", enqueue_bulk},
      {"depth_10k_vs_10M", depth},
      {"finished_50M", finished_50M},
      {"held_snapshot", held_snapshot},
      {"bloat", bloat},
      {"extend_5000", extend_5000},
      {"recover_100k", recover_100k},
      {"worker_drain_1", worker_drain_1},
      {"worker_drain_4", worker_drain_4},
      {"worker_large_payloads", worker_large_payloads},
      {"enqueue_to_start", enqueue_to_start},
      {"fleet_500", fleet_500},
  };
  return all;
}

void run(const leasehold::bench::Options& options) {
  std::vector<Result> results;
  {
    leasehold::bench::Progress progress;
    leasehold::harness::PostgresServer server(leasehold::bench::server_options());
    TaskBench bench{options, progress, server};
    for (const Case& one : cases()) {
      if (options.wants(one.name)) results.push_back(one.run(bench, one.name));
    }
  }
  std::cout << "PostgreSQL: " << leasehold::bench::server_settings() << "\n\n";
  print_table(results);
  if (!options.json.empty()) write_json(results, options.json);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names;
  for (const Case& one : cases()) names.push_back(one.name);
  leasehold::bench::Options defaults;
  defaults.time = std::chrono::seconds{16};
  defaults.slice = std::chrono::seconds{1};  // the shortest run of pgbench
  const auto options = leasehold::bench::parse_options(argc, argv, names, defaults);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::cerr << "bench_tasks: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
