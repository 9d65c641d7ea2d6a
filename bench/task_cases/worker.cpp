#include <algorithm>
#include <condition_variable>
#include <leasehold/tasks.hpp>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include "duel.hpp"
#include "postgres_tools.hpp"
#include "task_cases/cases.hpp"
#include "worker_process.hpp"

namespace leasehold::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t depth = 400'000;        // more than a turn drains
constexpr std::size_t concurrency = 8;        // of each process
constexpr std::size_t reference_batch = 500;  // of the reference
constexpr std::size_t reference_clients = 4;
constexpr int inserts_per_second = 40;  // with pauses of up to 50 ms

/// Processes that work for one turn.
Work drain_by(const BenchDatabase& database, std::size_t processes, milliseconds slice) {
  std::vector<std::unique_ptr<WorkerProcess>> workers;
  for (std::size_t i = 0; i < processes; ++i) {
    workers.push_back(std::make_unique<WorkerProcess>(database.uri(), concurrency,
                                                      WorkerProcess::Completed::deleted));
  }
  const auto begun = steady_clock::now();
  for (auto& worker : workers) worker->start();
  std::this_thread::sleep_until(begun + slice);
  for (auto& worker : workers) worker->ask();
  Work work;
  for (auto& worker : workers) work.operations += worker->answer().completed;
  work.seconds = std::chrono::duration<double>(steady_clock::now() - begun).count();
  for (auto& worker : workers) worker->stop();
  for (auto& worker : workers) worker->wait();
  return work;
}

Result worker_drain(TaskBench& bench, const std::string& name, std::size_t processes,
                    double target) {
  bench.progress.show(name + ": filling");
  const BenchDatabase database(bench.server);
  const Duel duel = fight(
      bench.options, name, bench.progress,
      [&](auto slice) {
        database.fill("leasehold", depth);
        return drain_by(database, processes, slice);
      },
      [&](auto slice) {
        database.fill("raw", depth);
        return database.pgbench({"drain_batch.sql", reference_clients, reference_batch}, slice);
      });
  return {.name = name,
          .unit = "tasks through handlers/s, processes of 8 threads",
          .ours = duel.ours.rate(),
          .reference = duel.reference.rate(),
          .reference_name = "pgbench, bench/sql/drain_batch.sql, 4 clients",
          .ratio = duel.ratio,
          .target = target};
}

/// A queue and a worker of its own, and how long a task takes from enqueue() to its handler.
class Probe {
 public:
  Probe(const std::string& uri, const std::string& schema, WakeUp wake_up, LeaseCommit commit)
      : queue_(uri, with(schema, commit)), worker_(queue_, {.concurrency = 1, .wake_up = wake_up}) {
    worker_.on("t", [this](Task&) {
      const std::lock_guard guard(mutex_);
      started_ = steady_clock::now();
      begun_.notify_one();
    });
    thread_ = std::jthread([this](const std::stop_token& stop) { worker_.run(stop); });
  }

  /// Again and again for some time, each after a random pause.
  void run(milliseconds time, milliseconds longest_pause) {
    std::minstd_rand random{std::random_device{}()};
    const auto end = steady_clock::now() + time;
    while (steady_clock::now() < end) {
      const auto pause = random() % static_cast<unsigned long>(longest_pause.count());
      std::this_thread::sleep_for(milliseconds{pause});
      const auto sent = steady_clock::now();
      queue_.enqueue({.type = "t"});
      std::unique_lock lock(mutex_);
      if (!begun_.wait_for(lock, std::chrono::seconds{30}, [&] { return started_ > sent; })) {
        throw std::runtime_error("a task was not started");
      }
      taken_us_.push_back(std::chrono::duration<double, std::micro>(started_ - sent).count());
    }
  }

  const std::vector<double>& taken_us() const { return taken_us_; }

 private:
  static TaskQueueOptions with(const std::string& schema, LeaseCommit commit) {
    TaskQueueOptions options;
    options.postgres.schema = schema;
    options.postgres.lease_commit = commit;
    options.retention = Retention::delete_at_once();
    return options;
  }

  TaskQueue queue_;
  Worker worker_;
  std::mutex mutex_;
  std::condition_variable begun_;
  steady_clock::time_point started_;
  std::vector<double> taken_us_;
  std::jthread thread_;
};

/// Sorted.
std::vector<double> latencies(const BenchDatabase& database, WakeUp wake_up, std::size_t probes,
                              milliseconds time, milliseconds longest_pause,
                              LeaseCommit commit = LeaseCommit::wait) {
  std::string prefix = wake_up == WakeUp::listen ? "listen" : "poll";
  if (commit == LeaseCommit::do_not_wait) prefix += "_once";
  std::vector<std::unique_ptr<Probe>> all;
  for (std::size_t i = 0; i < probes; ++i) {
    const std::string schema = prefix + std::to_string(i);
    database.add_schema(schema);
    all.push_back(std::make_unique<Probe>(database.uri(), schema, wake_up, commit));
  }
  {
    std::vector<std::jthread> threads;
    for (auto& probe : all) {
      threads.emplace_back([&probe, time, longest_pause] { probe->run(time, longest_pause); });
    }
  }
  std::vector<double> sorted;
  for (const auto& probe : all) {
    sorted.insert(sorted.end(), probe->taken_us().begin(), probe->taken_us().end());
  }
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

double quantile(const std::vector<double>& sorted, double share) {
  return sorted.at(static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1)));
}

}  // namespace

Result worker_drain_1(TaskBench& bench, const std::string& name) {
  return worker_drain(bench, name, 1, 0.9);
}

Result worker_drain_4(TaskBench& bench, const std::string& name) {
  return worker_drain(bench, name, 4, 1.0);
}

Result enqueue_to_start(TaskBench& bench, const std::string& name) {
  const BenchDatabase database(bench.server);
  const milliseconds half = bench.options.time / 2;
  bench.progress.show(name + ": NOTIFY");
  const auto notified = latencies(database, WakeUp::listen, 1, half, milliseconds{50});
  const auto one_commit =
      latencies(database, WakeUp::listen, 1, half, milliseconds{50}, LeaseCommit::do_not_wait);
  // As often as the tasks above, so that the processor is as cold as there.
  bench.progress.show(name + ": one INSERT at a time");
  const auto inserts = database.latencies_us("enqueue_one.sql", inserts_per_second, half);
  bench.progress.show(name + ": polling");
  // An idle worker polls every second: many of them, to have enough values.
  const auto polled = latencies(database, WakeUp::poll, 16, half, milliseconds{2'000});
  return {.name = name,
          .unit = "us from enqueue() to the handler, median, by NOTIFY",
          .ours = quantile(notified, 0.5),
          .reference = quantile(inserts, 0.5),
          .reference_name = "pgbench, one row inserted and committed, median",
          .ratio = quantile(notified, 0.5) / quantile(inserts, 0.5),
          .target = 2.0,
          .goal = Goal::at_most,
          .extra = {{"p99_us", quantile(notified, 0.99)},
                    {"median_us_if_leases_do_not_wait", quantile(one_commit, 0.5)},
                    {"samples", static_cast<double>(notified.size())},
                    {"insert_p99_us", quantile(inserts, 0.99)},
                    {"polling_median_us", quantile(polled, 0.5)},
                    {"polling_p99_us", quantile(polled, 0.99)},
                    {"polling_samples", static_cast<double>(polled.size())}}};
}

}  // namespace leasehold::bench
