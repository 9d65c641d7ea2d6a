#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <leasehold/task_queue.hpp>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "cpu_time.hpp"
#include "postgres_tools.hpp"
#include "task_cases/cases.hpp"
#include "worker_process.hpp"

namespace leasehold::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Counts = WorkerProcess::Counts;

constexpr std::size_t small_fleet = 10;
constexpr milliseconds between_tasks{20};
constexpr double leases_a_task = 3;
constexpr double connections_a_worker = 2;

// What a worker needs at most, for the size of the fleet and the limit of the server.
constexpr std::size_t megabytes_a_worker = 16;  // with its processes in PostgreSQL; 8 were seen
constexpr std::size_t most_connections_a_worker = 6;

std::size_t available_megabytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string word; info >> word;) {
    std::size_t kibibytes = 0;
    if (word == "MemAvailable:" && info >> kibibytes) return kibibytes / 1024;
  }
  throw std::runtime_error("no MemAvailable in /proc/meminfo");
}

/// As many workers as asked for, or as the machine bears.
std::size_t fleet_size(std::size_t wanted) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  // Each process has two pipes to us. A quarter of the memory is left alone.
  const std::size_t by_files = static_cast<std::size_t>(files.rlim_cur) / 2;
  const std::size_t by_memory = available_megabytes() * 3 / 4 / megabytes_a_worker;
  return std::max(2 * small_fleet,
                  std::min({wanted, by_files > 100 ? by_files - 100 : 0, by_memory}));
}

/// Worker processes with one handler thread each.
class Fleet {
 public:
  Fleet(const std::string& uri, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      workers_.push_back(std::make_unique<WorkerProcess>(uri, 1, WorkerProcess::Completed::kept));
      workers_.back()->start();
    }
  }
  ~Fleet() {
    for (auto& worker : workers_) worker->stop();
    for (auto& worker : workers_) worker->wait();
  }
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  Counts counts() {
    for (auto& worker : workers_) worker->ask();
    Counts sum;
    for (auto& worker : workers_) sum += worker->answer();
    return sum;
  }

 private:
  std::vector<std::unique_ptr<WorkerProcess>> workers_;
};

/// Adds a task every 20 ms, or fewer if the server is too busy for that.
void feed(TaskQueue& queue, milliseconds time) {
  auto next = steady_clock::now();
  for (const auto end = next + time; next < end;) {
    std::this_thread::sleep_until(next);
    queue.enqueue({.type = "bench0"});
    next = std::max(next + between_tasks, steady_clock::now());
  }
}

/// Of one database.
struct Load {
  double connections = 0;  ///< open now, by workers
  double commits = 0;
};

Load load_of(const BenchDatabase& database) {
  std::string text = database.run("server_load.sql");
  std::replace(text.begin(), text.end(), '|', ' ');
  std::istringstream fields(text);
  Load load;
  fields >> load.connections >> load.commits;
  if (!fields) throw std::runtime_error("no load of the server: " + text);
  return load;
}

struct Finding {
  double cpu_ms = 0;  ///< of PostgreSQL; this and the next two are for each task started
  double leases = 0;
  double commits = 0;
  double ms_to_start = 0;  ///< mean
  double tasks = 0;
  double connections = 0;  ///< of each worker
};

Finding watch(harness::PostgresServer& server, std::size_t size, milliseconds settling,
              milliseconds time) {
  const BenchDatabase database(server);
  TaskQueue queue(database.uri(), {.postgres = {.connections = 1}});
  Fleet fleet(database.uri(), size);
  feed(queue, settling);  // each worker learns how many there are
  const Load load = load_of(database);
  const Counts counts = fleet.counts();
  const double cpu = cpu_seconds_with_children(server.pid());
  feed(queue, time);
  const double used = cpu_seconds_with_children(server.pid()) - cpu;
  const Counts done = fleet.counts() - counts;
  const Load end = load_of(database);
  if (done.started <= 0) throw std::runtime_error("the fleet started no task");
  return {.cpu_ms = 1000 * used / done.started,
          .leases = done.lease_calls / done.started,
          .commits = (end.commits - load.commits) / done.started,
          .ms_to_start = 1000 * done.seconds_to_start / done.started,
          .tasks = done.started,
          .connections = end.connections / static_cast<double>(size)};
}

}  // namespace

Result fleet_500(TaskBench& bench, const std::string& name) {
  const bool quick = bench.options.quick;
  const std::size_t size = fleet_size(quick ? 100 : 500);
  const milliseconds settling{quick ? 5'000 : 20'000};
  const milliseconds time{quick ? 5'000 : 20'000};
  // A server of its own, because of the many connections.
  const std::size_t most_connections = size * most_connections_a_worker + 50;
  harness::PostgresServer server(server_options(static_cast<int>(most_connections)));
  bench.progress.show(name + ": " + std::to_string(small_fleet) + " workers");
  const Finding few = watch(server, small_fleet, settling, time);
  bench.progress.show(name + ": " + std::to_string(size) + " workers");
  const Finding many = watch(server, size, settling, time);
  return {.name = name,
          .unit = "ms of PostgreSQL's processor time for each task, one task every 20 ms",
          .ours = many.cpu_ms,
          .reference = few.cpu_ms,
          .reference_name = "the same with 10 worker processes",
          .ratio = many.cpu_ms / few.cpu_ms,
          .goal = Goal::at_most,
          .extra = {{"worker_processes", static_cast<double>(size)},
                    {"tasks_started", many.tasks},
                    {"reference_tasks_started", few.tasks},
                    {"leases_tried_per_task", many.leases},
                    {"reference_leases_tried_per_task", few.leases},
                    {"commits_per_task", many.commits},
                    {"reference_commits_per_task", few.commits},
                    {"ms_to_start_mean", many.ms_to_start},
                    {"reference_ms_to_start_mean", few.ms_to_start},
                    {"connections_per_worker", many.connections},
                    {"reference_connections_per_worker", few.connections}},
          .at_most = {{"leases_tried_per_task", leases_a_task},
                      {"connections_per_worker", connections_a_worker}}};
}

}  // namespace leasehold::bench
