// The speed of the embedded stores, compared with minimal code that uses SQLite directly.
#include <exception>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "embedded_cases/cases.hpp"

namespace {

using leasehold::bench::EmbeddedBench;
using leasehold::bench::Result;
using leasehold::bench::Where;

struct Case {
  std::string name;
  Where where;
  std::size_t threads;
  std::function<Result(const EmbeddedBench&, const std::string& name)> run;
};

std::vector<Case> cases() {
  using namespace leasehold::bench;
  std::vector<Case> all;
  for (const Where where : {Where::memory, Where::file}) {
    for (const std::size_t threads : {1U, 8U}) {
      const std::string suffix = std::string(where == Where::memory ? "_memory_" : "_file_") +
                                 std::to_string(threads) + (threads == 1 ? "_thread" : "_threads");
      all.push_back({"locks" + suffix, where, threads, embedded_locks});
      all.push_back({"drain" + suffix, where, threads,
                     [](auto& bench, auto& name) { return embedded_drain(bench, name, 1); }});
      all.push_back({"drain_100" + suffix, where, threads,
                     [](auto& bench, auto& name) { return embedded_drain(bench, name, 100); }});
    }
  }
  return all;
}

void run(const leasehold::bench::Options& options) {
  std::vector<Result> results;
  {
    leasehold::bench::Progress progress;
    for (const Case& one : cases()) {
      if (!options.wants(one.name)) continue;
      results.push_back(one.run({options, progress, one.where, one.threads}, one.name));
    }
  }
  std::cout << "SQLite " << sqlite3_libversion()
            << ", WAL; on a file, tasks synchronous=FULL, locks synchronous=NORMAL\n\n";
  print_table(results);
  if (!options.json.empty()) write_json(results, options.json);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names;
  for (const Case& one : cases()) names.push_back(one.name);
  const auto options = leasehold::bench::parse_options(argc, argv, names);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::cerr << "bench_embedded: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
