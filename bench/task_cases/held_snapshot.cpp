#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <leasehold/recovery.hpp>
#include <leasehold/task_queue.hpp>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "duel.hpp"
#include "postgres_tools.hpp"
#include "task_cases/cases.hpp"

namespace leasehold::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t threads = 4;
constexpr std::size_t small_batch = 10;
constexpr std::size_t large_batch = 500;
constexpr int turns = 8;  // that the held time is divided into
constexpr int high_priority = 10;
constexpr double longest_recovery_ms = 1'000;  // leaseholdd begins one every second

TaskQueueOptions queue_options() {
  return {.postgres = {.connections = threads + 1}, .retention = Retention::delete_at_once()};
}

Step lease_and_complete(TaskQueue& queue) {
  return [&queue, request = LeaseRequest{.types = {"bench0"}, .limit = small_batch}] {
    auto leases = queue.lease(request);
    if (leases.empty()) throw std::runtime_error("the table ran dry");
    queue.complete(leases);
    return leases.size();
  };
}

/// Most waiting tasks have priority 0. This adds a few with a higher one all the time, so that both
/// are in use.
Step add_urgent_tasks(TaskQueue& queue) {
  std::vector<NewTask> tasks(20);
  for (NewTask& task : tasks) {
    task.type = "bench0";
    task.priority = high_priority;
  }
  return [&queue, tasks] {
    queue.enqueue(tasks);
    std::this_thread::sleep_for(milliseconds{20});
    return std::size_t{0};
  };
}

double milliseconds_of(const std::function<void()>& call) {
  const auto begun = steady_clock::now();
  call();
  return std::chrono::duration<double, std::milli>(steady_clock::now() - begun).count();
}

/// Recovers every second, as leaseholdd does. Leases a few tasks at first, whose leases expire.
class RecoveryRounds {
 public:
  explicit RecoveryRounds(const std::string& uri)
      : queue_(uri, queue_options()),
        recovery_(queue_),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}

  /// Ends the rounds. Rethrows the exception of one. Returns how long the longest took.
  double longest_ms() {
    thread_.request_stop();
    thread_.join();
    if (failure_) std::rethrow_exception(failure_);
    return longest_ms_;
  }

 private:
  void run(const std::stop_token& stop) try {
    std::mutex mutex;
    std::condition_variable_any bell;
    std::unique_lock lock(mutex);
    auto leases =
        queue_.lease({.types = {"bench0"}, .limit = small_batch, .duration = milliseconds{500}});
    for (auto& lease : leases) lease.abandon();
    while (!stop.stop_requested()) {
      longest_ms_ = std::max(longest_ms_, milliseconds_of([this] { recovery_.run_once(); }));
      bell.wait_for(lock, stop, std::chrono::seconds{1}, [] { return false; });
    }
  } catch (...) {
    failure_ = std::current_exception();
  }

  TaskQueue queue_;
  Recovery recovery_;
  double longest_ms_ = 0;
  std::exception_ptr failure_;
  std::jthread thread_;
};

struct Finding {
  Work all;
  Work last;  ///< the last turn
  double first_lease_ms = 0;
  double longest_recovery_ms = 0;
};

/// Works for so many turns with a queue that knows nothing of the table yet.
Finding work_for(const BenchDatabase& database, int count, milliseconds turn) {
  TaskQueue queue(database.uri(), queue_options());
  Finding found;
  found.first_lease_ms = milliseconds_of([&] {
    auto lease = queue.lease({.types = {"bench0"}});
    queue.complete(lease);
  });
  RecoveryRounds rounds(database.uri());
  std::vector<Step> steps(threads, lease_and_complete(queue));
  steps.push_back(add_urgent_tasks(queue));
  Crew crew(std::move(steps));
  for (int i = 0; i < count; ++i) found.all += found.last = crew.run(turn);
  found.longest_recovery_ms = rounds.longest_ms();
  return found;
}

/// Leaves so many dead entries in each of the indexes tasks_ready and tasks_leased, half of them of
/// each priority, before the tasks that wait. Call it while a transaction is open.
void leave_dead_entries(const BenchDatabase& database, std::size_t number) {
  database.run("add_ready.sql", {{"schema", "leasehold"}, {"rows", std::to_string(number)}});
  TaskQueue queue(database.uri(), queue_options());
  std::atomic<std::size_t> claimed{0};
  // Each thread takes its turn until all of them are leased and completed.
  const Step drain = [&]() -> std::size_t {
    while (claimed.fetch_add(large_batch) < number) {
      auto leases = queue.lease({.types = {"bench0"}, .limit = large_batch});
      queue.complete(leases);
    }
    return 0;
  };
  Crew(std::vector<Step>(threads, drain)).run(milliseconds{1});
}

}  // namespace

Result held_snapshot(TaskBench& bench, const std::string& name) {
  const milliseconds turn{bench.options.quick ? 500 : 2'500};
  const std::size_t depth = bench.options.quick ? 150'000 : 600'000;  // more than is leased
  const std::size_t dead_entries = bench.options.quick ? 200'000 : 2'000'000;
  const BenchDatabase database(bench.server);
  // Begins with a table that is full and vacuumed.
  const auto work = [&](int count) {
    bench.progress.show(name + ": working");
    return work_for(database, count, turn);
  };
  const auto fill = [&] {
    bench.progress.show(name + ": filling");
    database.fill("leasehold", depth);
  };
  // Half of the comparison before and half of it after, against a drift of the machine.
  fill();
  const Finding before = work(turns / 2);
  fill();
  Finding held;
  double recovery_ms = 0;
  double health_ms = 0;
  double counts_ms = 0;
  std::uint64_t dead_rows = 0;
  {
    const BenchDatabase::HeldSnapshot snapshot(database);
    bench.progress.show(name + ": leaving " + std::to_string(dead_entries) + " dead entries");
    leave_dead_entries(database, dead_entries);
    held = work(turns);
    TaskQueue queue(database.uri(), queue_options());
    Recovery recovery(queue);
    queue.get(TaskId{1});  // connects
    recovery_ms = milliseconds_of([&] { recovery.run_once(); });
    health_ms = milliseconds_of([&] { dead_rows = queue.health().dead_rows; });
    counts_ms = milliseconds_of([&] { queue.counts(); });
  }
  fill();
  const Finding after = work(turns / 2);
  Work free = before.all;
  free += after.all;
  return {.name = name,
          .unit = "tasks of 2 priorities leased and completed/s, batches of 10 by 4 threads",
          .ours = held.all.rate(),
          .reference = free.rate(),
          .reference_name = "the same without a transaction that is open",
          .ratio = held.all.rate() / free.rate(),
          .target = 0.9,
          .extra = {{"held_seconds", held.all.seconds},
                    {"ours_in_the_last_eighth", held.last.rate()},
                    {"dead_entries_at_the_beginning", static_cast<double>(dead_entries)},
                    {"dead_rows_in_the_end", static_cast<double>(dead_rows)},
                    {"first_lease_ms", held.first_lease_ms},
                    {"reference_first_lease_ms", before.first_lease_ms},
                    {"longest_recovery_ms", held.longest_recovery_ms},
                    {"reference_longest_recovery_ms",
                     std::max(before.longest_recovery_ms, after.longest_recovery_ms)},
                    {"recovery_in_the_end_ms", recovery_ms},
                    {"health_in_the_end_ms", health_ms},
                    {"counts_in_the_end_ms", counts_ms}},
          .at_most = {{"longest_recovery_ms", longest_recovery_ms}}};
}

}  // namespace leasehold::bench
