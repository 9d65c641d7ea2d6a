// A ledger of tasks while workers, connections and the server fail: ./dev soak tasks.
#include <cstdlib>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/history/soak_program.hpp"
#include "tests/ledger/task_soak.hpp"

namespace leasehold::testing {
namespace {

constexpr const char* help = R"(Usage: ./dev soak tasks [OPTIONS]

Four worker processes do tasks on a private PostgreSQL. The effect of a task is committed together
with its completion, or guarded by its version. Meanwhile workers are killed and frozen past their
leases, connections are terminated, the table of tasks is locked, and the server is killed. Exits
with status 1 if a task had its effect twice or not at all, if a task is left, leased or dead, if a
crash was counted for a task that did not run, or if a process had more connections than its pool
allows. Prints what is wrong, and the seed.

  --tasks N      how many tasks at least, default 200000; every fault happens once at least
  --minutes N    go on adding tasks for at least so long; default 0
  --seed S       repeat the random choices of an earlier run
  --bug NAME     plant this bug into the workers, to see that it is found
  --dir DIR      where the log of the workers is written
  --help         this text

The same seed chooses the same faults, but processes meet in other ways each time.

Examples:
  ./dev soak tasks --tasks 20000
  ./dev soak tasks --minutes 30
  ./dev soak tasks --tasks 5000 --bug effect_outside
)";

TaskSoakOptions parse_options(const std::vector<std::string>& words) {
  TaskSoakOptions options;
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
    if (option == "--tasks") {
      options.tasks = parse_number<std::int64_t>(option, value, 100, 100'000'000);
    } else if (option == "--minutes") {
      const double minutes = parse_number(option, value, 0.0, 10'000.0);
      options.time = std::chrono::milliseconds{static_cast<std::int64_t>(minutes * 60'000)};
    } else if (option == "--seed") {
      options.seed = parse_number<std::uint64_t>(option, value, 0, std::uint64_t{1} << 62U);
    } else if (option == "--bug") {
      options.bug = ledger_bug(value);
    } else if (option == "--dir") {
      options.directory = value;
    } else {
      throw std::invalid_argument("unknown option " + option);
    }
  }
  options.directory /= "tasks-" + std::to_string(options.seed);
  return options;
}

int soak(TaskSoakOptions options) {
  options.progress = [](const std::string& text) { std::cout << text << std::endl; };
  std::cout << "seed " << options.seed << std::endl;
  const TaskSoakReport report = soak_tasks(options);
  std::cout << report.tasks << " tasks, " << report.repeated_tasks << " of them leased again, "
            << report.crashes << " crashes counted (at most " << report.most_crashes << "), "
            << report.refused_effects << " effects refused, " << report.repeated_enqueues
            << " enqueues repeated, at most " << report.most_backends
            << " connections of one pool\nfaults:\n";
  for (const auto& [name, times] : report.faults)
    std::cout << "  " << name << ": " << times << "\n";
  if (report.violations.empty()) {
    std::cout << "no rule was broken" << std::endl;
    return EXIT_SUCCESS;
  }
  std::cout << "BROKEN with --seed " << options.seed << ":\n" << report.violations;
  std::cout << "the log of the workers: " << options.directory.string() << std::endl;
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace leasehold::testing

int main(int argc, char** argv) {
  using namespace leasehold::testing;
  return run_soak_program("tasks", argc, argv, parse_options, soak);
}
