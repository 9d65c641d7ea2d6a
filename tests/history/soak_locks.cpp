// Random work on locks while servers and processes fail, for as long as you like: ./dev soak locks.
#include <cstdlib>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/temp_dir.hpp"
#include "tests/history/lock_soak.hpp"
#include "tests/history/soak_program.hpp"

namespace leasehold::testing {
namespace {

constexpr const char* help = R"(Usage: ./dev soak locks [OPTIONS]

Processes work on a few locks while servers and processes fail in every way that the tests know.
What they saw is written down and checked. Ends with 1 if an invariant was broken, and prints which
one, the part of the history that shows it, and the seed.

  --minutes N    how long, default 5; every fault happens once at least
  --seed S       repeats a choice of work and faults; without it, a new one
  --store S      redis (default) or sqlite, in a file
  --crowd N      how many waiters are killed at once, default 1000
  --bug NAME     plant this bug into the scripts, to see that it is found
  --dir DIR      where the histories are written; default a temporary directory
  --help         this text

The work is done in rounds of a minute. Each has servers and a seed of its own, counted up from S.
The same seed chooses the same work and faults, but threads and processes meet in other ways each
time: repeat it a few times.

Examples:
  ./dev soak locks --minutes 10             a long run with a seed of its own
  ./dev soak locks --minutes 1 --seed 4711  the round that failed, again
  ./dev soak locks --store sqlite
  ./dev soak locks --preset tsan --minutes 5 --crowd 100
)";

SoakOptions parse_options(const std::vector<std::string>& words) {
  SoakOptions options;
  options.time = std::chrono::minutes{5};
  options.seed = std::random_device{}();
  for (auto word = words.begin(); word != words.end(); ++word) {
    const std::string& option = *word;
    if (option == "--help" || option == "-h") {
      std::cout << help;
      std::exit(0);
    }
    if (std::next(word) == words.end())
      throw std::invalid_argument("unknown option, or no value for " + option);
    const std::string& value = *++word;
    if (option == "--minutes") {
      const double minutes = parse_number(option, value, 0.0, 10'000.0);
      options.time = std::chrono::milliseconds{static_cast<std::int64_t>(minutes * 60'000)};
    } else if (option == "--seed") {
      options.seed = parse_number<std::uint64_t>(option, value, 0, std::uint64_t{1} << 62U);
    } else if (option == "--crowd") {
      options.crowd = parse_number<std::size_t>(option, value, 0, 20'000);
    } else if (option == "--dir") {
      options.directory = value;
    } else if (option == "--bug") {
      options.bug = planted_bug(value);
    } else if (option == "--store" && value == "redis") {
      options.store = StoreKind::redis;
    } else if (option == "--store" && value == "sqlite") {
      options.store = StoreKind::sqlite_file;
    } else {
      throw std::invalid_argument("unknown option or value: " + option + " " + value);
    }
  }
  return options;
}

void print(const std::string& title, const std::map<std::string, int>& counts) {
  std::cout << title << ":\n";
  for (const auto& [name, times] : counts) std::cout << "  " << name << ": " << times << "\n";
}

int soak(SoakOptions options) {
  const harness::TempDir temporary;
  if (options.directory.empty()) options.directory = temporary.path();
  options.progress = [](const std::string& text) { std::cout << text << std::endl; };
  std::cout << "seed " << options.seed << std::endl;
  const SoakReport report = soak_locks(options);
  std::cout << report.operations << " operations, " << report.grants << " grants\n";
  print("faults", report.faults);
  print("not successful", report.errors);
  if (report.violations.empty()) {
    std::cout << "no invariant was broken" << std::endl;
    return EXIT_SUCCESS;
  }
  std::cout << "BROKEN with --seed " << report.seed_of_violation << ":\n" << report.violations;
  std::cout << "the whole history: " << report.history.string() << std::endl;
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace leasehold::testing

int main(int argc, char** argv) {
  using namespace leasehold::testing;
  return run_soak_program("locks", argc, argv, parse_options, soak);
}
