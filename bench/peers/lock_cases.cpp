#include <algorithm>
#include <memory>
#include <stdexcept>

#include "peers/cases.hpp"

namespace leasehold::bench {
namespace {

using nlohmann::json;

const std::vector<std::string> lock_peers{"ours", "redlock", "redis-semaphore"};

constexpr int lock_processes = 4;
constexpr int contenders = 4;  // of each process

double pairs(Stores& stores, const System& system, int concurrency, double seconds) {
  const std::string uri = stores.fresh({.name = system.name, .store = Store::redis});
  const json said =
      Driver(system, "pairs", {{"uri", uri}, {"concurrency", concurrency}, {"seconds", seconds}})
          .read();
  return said.at("pairs").get<double>() / said.at("seconds").get<double>();
}

/// When one contender asked for the lock and when it got it.
struct Turn {
  double asked;
  double granted;
  int contender;
};

std::vector<Turn> contend(Stores& stores, const System& system, double seconds) {
  const std::string uri = stores.fresh({.name = system.name, .store = Store::redis});
  std::vector<std::unique_ptr<Driver>> drivers;
  for (int i = 0; i < lock_processes; ++i) {
    drivers.push_back(std::make_unique<Driver>(system, "contend",
                                               json{{"uri", uri},
                                                    {"contenders", contenders},
                                                    {"first", i * contenders},
                                                    {"seconds", seconds}}));
  }
  for (auto& driver : drivers) driver->read();  // ready
  for (auto& driver : drivers) driver->go();
  std::vector<Turn> turns;
  for (auto& driver : drivers) {
    const json said = driver->read(std::chrono::minutes{2});
    for (const auto& turn : said.at("turns")) {
      turns.push_back({turn.at(0), turn.at(1), turn.at(2)});
    }
  }
  const auto written = std::stoul(stores.redis().command({"GET", "bench:counter"}).string);
  if (written != turns.size()) throw std::runtime_error("two had the hot lock at once");
  std::sort(turns.begin(), turns.end(),
            [](const Turn& a, const Turn& b) { return a.granted < b.granted; });
  return turns;
}

std::vector<Figure> hot_lock(Stores& stores, const System& system, double seconds) {
  const auto turns = contend(stores, system, seconds);
  std::vector<double> all;
  std::vector<double> from_another;  // without those who released it and took it again at once
  for (std::size_t i = 1; i < turns.size(); ++i) {
    all.push_back(turns[i].granted - turns[i].asked);
    if (turns[i].contender != turns[i - 1].contender) from_another.push_back(all.back());
  }
  const double rate =
      static_cast<double>(all.size()) / (turns.back().granted - turns.front().granted) * 1000;
  return {{"hot_lock_wait_p50", "ms", Better::lower, quantile(all, 0.5)},
          {"hot_lock_wait_p99", "ms", Better::lower, quantile(all, 0.99)},
          {"hot_lock_wait_longest", "ms", Better::lower, quantile(all, 1)},
          {"hot_lock_handover_p50", "ms", Better::lower, quantile(from_another, 0.5)},
          {"hot_lock_handover_p99", "ms", Better::lower, quantile(from_another, 0.99)},
          {"hot_lock_turns", "turns/s", Better::higher, rate}};
}

}  // namespace

std::vector<Case> lock_cases(const Amounts& amounts) {
  std::vector<Case> cases;
  for (const int concurrency : {1, 64}) {
    const std::string name = "lock_pairs_" + std::to_string(concurrency);
    cases.push_back(
        {name, lock_peers,
         [name, concurrency, seconds = amounts.seconds](
             Stores& stores, const System& system) -> std::vector<Figure> {
           return {{name, "pairs/s", Better::higher, pairs(stores, system, concurrency, seconds)}};
         }});
  }
  cases.push_back(
      {"hot_lock", lock_peers, [seconds = amounts.seconds](Stores& stores, const System& system) {
         return hot_lock(stores, system, seconds);
       }});
  return cases;
}

}  // namespace leasehold::bench
