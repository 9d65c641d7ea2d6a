#include <fstream>
#include <stdexcept>
#include <thread>

#include "postgres_tools.hpp"
#include "task_cases/cases.hpp"
#include "worker_process.hpp"

namespace leasehold::bench {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t mebibyte = 1024 * 1024;
constexpr std::chrono::seconds longest_drain{300};

/// The most memory that a process has used, in MB (VmHWM).
double peak_megabytes(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;) {
    double kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024 / 1e6;
  }
  throw std::runtime_error("no VmHWM for process " + std::to_string(process));
}

struct Finding {
  double peak_mb = 0;
  double seconds = 0;
};

/// A worker with default options completes all of them.
Finding drain(const BenchDatabase& database, std::size_t tasks, std::size_t bytes) {
  database.run(
      "fill_large.sql",
      {{"schema", "leasehold"}, {"rows", std::to_string(tasks)}, {"bytes", std::to_string(bytes)}});
  WorkerProcess worker(database.uri(), 0, WorkerProcess::Completed::kept);
  const auto begun = steady_clock::now();
  worker.start();
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    worker.ask();
    if (worker.answer().completed >= static_cast<double>(tasks)) break;
    if (steady_clock::now() - begun > longest_drain) {
      throw std::runtime_error("the large tasks were not completed in time");
    }
  }
  const Finding found{peak_megabytes(worker.pid()),
                      std::chrono::duration<double>(steady_clock::now() - begun).count()};
  worker.stop();
  worker.wait();
  return found;
}

}  // namespace

Result worker_large_payloads(TaskBench& bench, const std::string& name) {
  constexpr double limit_mb = 200;
  const std::size_t tasks = bench.options.quick ? 200 : 1'000;
  const BenchDatabase database(bench.server);
  bench.progress.show(name);
  const Finding small = drain(database, tasks, 100);
  const Finding large = drain(database, tasks, mebibyte);
  return {.name = name,
          .unit = "MB of memory at most (RSS) in a worker process with default options",
          .ours = large.peak_mb,
          .reference = limit_mb,
          .reference_name = "the limit",
          .ratio = large.peak_mb / limit_mb,
          .target = 1,
          .goal = Goal::at_most,
          .extra = {{"tasks", static_cast<double>(tasks)},
                    {"payload_bytes", double{mebibyte}},
                    {"seconds", large.seconds},
                    {"mb_if_payloads_have_100_bytes", small.peak_mb}}};
}

}  // namespace leasehold::bench
