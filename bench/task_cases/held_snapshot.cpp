#include <leasehold/task_queue.hpp>
#include <stdexcept>

#include "duel.hpp"
#include "postgres_tools.hpp"
#include "task_cases/cases.hpp"

namespace leasehold::bench {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t threads = 4;
constexpr std::size_t small_batch = 10;
constexpr int turns = 8;  // that the held time is divided into

}  // namespace

Result held_snapshot(TaskBench& bench, const std::string& name) {
  const milliseconds held_for{bench.options.quick ? 4'000 : 40'000};
  const milliseconds turn = held_for / turns;
  const std::size_t depth = bench.options.quick ? 200'000 : 2'000'000;
  const BenchDatabase database(bench.server);
  TaskQueue queue(database.uri(),
                  {.postgres = {.connections = threads}, .retention = Retention::delete_at_once()});
  Crew crew(std::vector<Step>(
      threads, [&queue, request = LeaseRequest{.types = {"bench0"}, .limit = small_batch}] {
        auto leases = queue.lease(request);
        if (leases.empty()) throw std::runtime_error("the table ran dry");
        queue.complete(leases);
        return leases.size();
      }));
  // So many turns from a table that is full and vacuumed; `last` is the last of them.
  const auto work_for = [&](int count, Work& last) {
    bench.progress.show(name + ": working");
    Work sum;
    for (int i = 0; i < count; ++i) sum += last = crew.run(turn);
    return sum;
  };
  const auto fill = [&] {
    bench.progress.show(name + ": filling");
    database.fill("leasehold", depth);
  };
  Work unused;
  Work last;
  // Half of the comparison before and half of it after, against a drift of the machine.
  fill();
  Work free = work_for(turns / 2, unused);
  fill();
  Work held;
  {
    const BenchDatabase::HeldSnapshot snapshot(database);
    held = work_for(turns, last);
  }
  fill();
  free += work_for(turns / 2, unused);
  return {.name = name,
          .unit = "tasks leased and completed/s, batches of 10 by 4 threads",
          .ours = held.rate(),
          .reference = free.rate(),
          .reference_name = "the same without a transaction that is open",
          .ratio = held.rate() / free.rate(),
          .target = 0.7,
          .extra = {{"held_seconds", held.seconds},
                    {"ours_in_the_last_eighth", last.rate()},
                    {"dead_entries_in_the_end", held.operations}}};
}

}  // namespace leasehold::bench
