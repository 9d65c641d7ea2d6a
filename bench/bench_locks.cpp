// The speed of locks, compared with minimal code that uses Redis directly.
#include <exception>
#include <functional>
#include <iostream>
#include <string_view>

#include "lock_cases/cases.hpp"

namespace {

using leasehold::bench::LockBench;
using leasehold::bench::Result;

struct Case {
  std::string name;
  std::function<Result(LockBench&, const std::string& name)> run;
};

const std::vector<Case>& cases() {
  using namespace leasehold::bench;
  static const std::vector<Case> all{
      {"uncontended_1_thread",
       [](auto& bench, auto& name) { return uncontended(bench, name, 1, 0.95); }},
      {"uncontended_64_threads",
       [](auto& bench, auto& name) { return uncontended(bench, name, 64, 2.0); }},
      {"tls_1_thread", tls},
      {"cluster_64_threads", cluster},
      {"replicas_majority_64_threads", replicas_majority},
#ifdef LEASEHOLD_WITH_REDIS_PLUS_PLUS
      {"redis_plus_plus_1_thread", redis_plus_plus},
#endif
      {"keep_alive_10000", keep_alive},
      {"hot_lock_handover", hot_lock_handover},
      {"handover_latency", handover_latency},
      {"contended_turn", contended_turn},
      {"dead_line_5000", dead_line},
      {"idle_waiters_1000", [](auto& bench, auto& name) { return idle_waiters(bench, name, 1); }},
      {"idle_waiters_100_locks",
       [](auto& bench, auto& name) { return idle_waiters(bench, name, 100); }},
  };
  return all;
}

void run(const leasehold::bench::Options& options) {
  std::vector<Result> results;
  {
    leasehold::bench::Progress progress;
    for (const Case& one : cases()) {
      if (!options.wants(one.name)) continue;
      leasehold::harness::RedisServer redis;
      LockBench bench{options, progress, redis};
      results.push_back(one.run(bench, one.name));
    }
  }
  print_table(results);
  if (!options.json.empty()) write_json(results, options.json);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--contenders") {
    return leasehold::bench::run_contenders({argv + 2, argv + argc});
  }
  std::vector<std::string> names;
  for (const Case& one : cases()) names.push_back(one.name);
  const auto options = leasehold::bench::parse_options(argc, argv, names);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::cerr << "bench_locks: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
