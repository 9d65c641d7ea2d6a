#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>

#include "peers/cases.hpp"

namespace leasehold::bench {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

const std::vector<std::string> task_peers{"ours", "graphile-worker", "pg-boss", "bullmq"};
const std::vector<std::string> with_batches{"ours", "graphile-worker", "pg-boss"};

constexpr std::size_t concurrency = 24;  // of each process, as graphile-worker's page says
constexpr double ten_batches = 5'000;    // fewer would not show a rate
constexpr double slow_factor = 4;        // slow systems get this much longer
constexpr int held_tasks = 10;
constexpr int lease_ms = 2'000;
constexpr double four_hours = 4 * 60 * 60;

std::string short_number(std::size_t number) {
  return number % 1'000 == 0 ? std::to_string(number / 1'000) + "k" : std::to_string(number);
}

struct Drain {
  std::string mode;
  std::size_t processes;
  std::size_t depth;
  double seconds;
};

/// What a driver said last of its work.
struct Count {
  double done = 0;
  double first = 0;
  double last = 0;

  void update(const json& line) {
    done = line.at("done");
    first = line.at("first");
    last = line.at("last");
  }
};

/// From when the first process was connected and looked for tasks, so that no start-up counts.
double rate_of(const std::vector<Count>& counts, double& done) {
  double first = INFINITY;
  double last = 0;
  done = 0;
  for (const Count& count : counts) {
    if (count.done == 0) continue;
    done += count.done;
    first = std::min(first, count.first);
    last = std::max(last, count.last);
  }
  if (done == 0) throw std::runtime_error("no task was done");
  return done / (last - first) * 1000;
}

double drain(Stores& stores, const System& system, const Drain& drain) {
  const std::string uri = stores.filled(system, drain.depth);
  std::vector<std::unique_ptr<Driver>> drivers;
  for (std::size_t i = 0; i < drain.processes; ++i) {
    drivers.push_back(std::make_unique<Driver>(
        system, "drain", json{{"uri", uri}, {"mode", drain.mode}, {"concurrency", concurrency}}));
  }
  for (auto& driver : drivers) driver->read();  // ready
  for (auto& driver : drivers) driver->go();
  std::vector<Count> counts(drivers.size());
  double done = 0;
  double begun = 0;  // when the first one had done something
  const double given_up = monotonic_ms() + 60'000;
  while (done < static_cast<double>(drain.depth)) {
    const bool few = drain.mode == "batched" && done < ten_batches;
    const double end = begun + drain.seconds * 1000 * (few ? slow_factor : 1);
    if (monotonic_ms() > (begun > 0 ? end : given_up)) break;
    done = 0;
    for (std::size_t i = 0; i < drivers.size(); ++i) {
      while (const auto line = drivers[i]->poll(milliseconds{5})) {
        counts[i].update(*line);
        if (begun == 0) begun = monotonic_ms();
      }
      done += counts[i].done;
    }
  }
  for (auto& driver : drivers) driver->go();  // on to the end
  for (std::size_t i = 0; i < drivers.size(); ++i) {
    for (const auto& line : drivers[i]->read_rest()) counts[i].update(line);
  }
  const double rate = rate_of(counts, done);
  stores.drained(system, static_cast<std::size_t>(done));
  return rate;
}

double fill(Stores& stores, const System& system, std::size_t count) {
  const std::string uri = stores.fresh(system);
  const json said =
      Driver(system, "fill", {{"uri", uri}, {"count", count}}).read(std::chrono::minutes{5});
  return said.at("count").get<double>() / said.at("seconds").get<double>();
}

std::vector<Figure> enqueue_to_start(Stores& stores, const System& system, double seconds) {
  const std::string uri = stores.fresh(system);
  auto waits = Driver(system, "latency", {{"uri", uri}, {"seconds", seconds}})
                   .read(std::chrono::minutes{3})
                   .at("waits")
                   .get<std::vector<double>>();
  return {{"enqueue_to_start_p50", "ms", Better::lower, quantile(waits, 0.5)},
          {"enqueue_to_start_p99", "ms", Better::lower, quantile(waits, 0.99)}};
}

/// One worker holds tasks and is killed while another one is idle.
Figure recover(Stores& stores, const System& system) {
  Figure figure{"recover_after_sigkill", "s", Better::lower, four_hours};
  if (system.name == "graphile-worker") {
    figure.note = "stated by its source, not measured";
    return figure;
  }
  const std::string uri = stores.fresh(system);
  Driver(system, "fill", {{"uri", uri}, {"count", held_tasks}, {"lease_ms", lease_ms}}).read();
  const json options{{"uri", uri}, {"concurrency", held_tasks}, {"lease_ms", lease_ms}};
  const auto next_start = [](Driver& driver) {
    for (;;) {
      const json line = driver.read(std::chrono::minutes{2});
      if (line.contains("started")) return line.at("started").get<double>();
    }
  };
  Driver holder(system, "hold", options);
  for (int i = 0; i < held_tasks; ++i) next_start(holder);
  Driver heir(system, "hold", options);
  heir.read();  // ready
  const double killed = monotonic_ms();
  holder.kill();
  double last = 0;
  for (int i = 0; i < held_tasks; ++i) last = next_start(heir);
  figure.value = (last - killed) / 1000;
  return figure;
}

}  // namespace

double quantile(std::vector<double>& values, double share) {
  if (values.empty()) throw std::runtime_error("nothing was measured");
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

std::vector<Case> task_cases(const Amounts& amounts) {
  std::vector<Case> cases;
  for (const std::size_t depth : amounts.depths) {
    for (const std::string mode : {"one_by_one", "batched"}) {
      for (const std::size_t processes : amounts.processes) {
        const std::string name =
            "drain_" + mode + "_" + short_number(depth) + "_" + std::to_string(processes) + "p";
        const Drain how{mode, processes, depth, amounts.seconds};
        cases.push_back({name, mode == "batched" ? with_batches : task_peers,
                         [name, how](Stores& stores, const System& system) -> std::vector<Figure> {
                           return {{name, "tasks/s", Better::higher, drain(stores, system, how)}};
                         }});
      }
    }
  }
  cases.push_back(
      {"enqueue_bulk", task_peers,
       [count = amounts.depths.front()](Stores& stores,
                                        const System& system) -> std::vector<Figure> {
         return {{"enqueue_bulk", "tasks/s", Better::higher, fill(stores, system, count)}};
       }});
  cases.push_back({"enqueue_to_start", task_peers,
                   [seconds = amounts.seconds](Stores& stores, const System& system) {
                     return enqueue_to_start(stores, system, seconds);
                   }});
  cases.push_back({"recover_after_sigkill", task_peers,
                   [](Stores& stores, const System& system) -> std::vector<Figure> {
                     return {recover(stores, system)};
                   }});
  return cases;
}

}  // namespace leasehold::bench
