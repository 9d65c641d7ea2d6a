// Kills the primary of locks that are in use, again and again: ./dev soak failovers.
#include <cstdlib>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/history/failover_storm.hpp"
#include "tests/history/soak_program.hpp"

namespace leasehold::testing {
namespace {

constexpr const char* help = R"(Usage: ./dev soak failovers [OPTIONS]

16 processes take and release a few locks while their primary is killed with SIGKILL. Prints a row
of the table in docs/topologies.md. Exits with status 1 if a token was not larger than all earlier
ones, if a rule was broken that must hold even during a failover, or if two processes held a lock at
the same time although a majority of the replicas, or all of them, had to confirm it.

  --topology T   sentinel (default) or cluster
  --replicas P   which replicas must confirm: none (default), any, majority or all
  --count N      how many failovers, default 5; each takes 8 s (cluster) to 30 s (sentinel)
  --lag MS       disconnect the replicas this many ms before each kill; default 0
  --seed S       repeat the random choices of an earlier run
  --bug NAME     plant this bug into the scripts, to see that it is found
  --dir DIR      where the history is written
  --help         this text

Examples:
  ./dev soak failovers --count 20
  ./dev soak failovers --topology cluster --replicas majority --lag 500
)";

StormOptions parse_options(const std::vector<std::string>& words) {
  StormOptions options;
  options.failovers = 5;
  options.seed = std::random_device{}();
  options.directory = "soak";
  for (auto word = words.begin(); word != words.end(); ++word) {
    const std::string& option = *word;
    if (option == "--help" || option == "-h") {
      std::cout << help;
      std::exit(0);
    }
    if (std::next(word) == words.end())
      throw std::invalid_argument("unknown option, or no value for " + option);
    const std::string& value = *++word;
    if (option == "--topology") {
      options.topology = storm_topology(value);
    } else if (option == "--replicas") {
      options.replicas = replicas_needed(value);
    } else if (option == "--count") {
      options.failovers = parse_number(option, value, 1, 10'000);
    } else if (option == "--lag") {
      options.lag = std::chrono::milliseconds{parse_number(option, value, 0, 900)};
    } else if (option == "--seed") {
      options.seed = parse_number<std::uint64_t>(option, value, 0, std::uint64_t{1} << 62U);
    } else if (option == "--bug") {
      options.bug = planted_bug(value);
    } else if (option == "--dir") {
      options.directory = value;
    } else {
      throw std::invalid_argument("unknown option " + option);
    }
  }
  options.directory /= "failovers-" + std::to_string(options.seed);
  return options;
}

int soak(StormOptions options) {
  options.progress = [](const std::string& text) { std::cout << text << std::endl; };
  std::filesystem::remove_all(options.directory);
  std::filesystem::create_directories(options.directory);
  std::cout << "seed " << options.seed << std::endl;
  const FailoverReport report = run_failover_storm(options);
  std::cout << "| topology | replicas | lag | failovers | grants | overlaps | tokens out of order"
               " | outage, median | longest |\n"
            << to_row(options, report) << std::endl;
  if (report.unasked_failovers > 0) {
    std::cout << "and " << report.unasked_failovers << " failovers that nobody asked for\n";
  }
  const bool overlaps_are_excused = report.unasked_failovers > 0 ||
                                    options.replicas == RedisReplicas::Needed::none ||
                                    options.replicas == RedisReplicas::Needed::any;
  if (report.tokens_in_disorder == 0 && report.violations.empty() &&
      (report.overlaps == 0 || overlaps_are_excused)) {
    std::filesystem::remove_all(options.directory);
    return EXIT_SUCCESS;
  }
  std::cout << "BROKEN:\n" << report.violations;
  std::cout << "the whole history: " << options.directory.string() << std::endl;
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace leasehold::testing

int main(int argc, char** argv) {
  using namespace leasehold::testing;
  return run_soak_program("failovers", argc, argv, parse_options, soak);
}
