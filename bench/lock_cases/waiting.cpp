#include <algorithm>
#include <memory>
#include <stdexcept>
#include <thread>

#include "duel.hpp"
#include "leasehold/lock_client.hpp"
#include "lock_cases/cases.hpp"
#include "raw_redis.hpp"

namespace leasehold::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t waiter_count = 1'000;
constexpr double allowed_round_trips = 2.5;

double us_since(steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(steady_clock::now() - begin).count();
}

/// All commands that Redis executed since it started, those inside of scripts counted too.
double commands_processed(LockBench& bench) {
  const std::string info = bench.redis.command({"INFO", "stats"}).string;
  const std::string field = "total_commands_processed:";
  return std::stod(info.substr(info.find(field) + field.size()));
}

/// How many locks the threads wait for, from how many clients, each of which stands for a process.
struct Idle {
  std::size_t locks = 1;
  std::size_t clients = 1;
};

/// Commands a second while `waiter_count` threads wait.
double idle_cost(LockBench& bench, const Idle& idle, milliseconds watch) {
  const std::size_t lock_count = idle.locks;
  const std::size_t client_count = idle.clients;
  LockClient holder(bench.redis.uri());
  std::vector<std::unique_ptr<LockClient>> clients;
  for (std::size_t i = 0; i < client_count; ++i) {
    clients.push_back(std::make_unique<LockClient>(bench.redis.uri()));
  }
  const auto name_of = [&](std::size_t i) {
    return "bench:idle:" + std::to_string(i % lock_count);
  };
  std::vector<Lock> held;
  for (std::size_t i = 0; i < lock_count; ++i) {
    held.push_back(holder.acquire(name_of(i), {.ttl = std::chrono::minutes{10}}).value());
  }
  std::stop_source stop;
  std::vector<std::jthread> waiters;
  for (std::size_t i = 0; i < waiter_count; ++i) {
    LockClient& client = *clients[i / lock_count % client_count];  // each waits for every lock
    waiters.emplace_back(
        [&, i] { client.acquire(name_of(i), {.wait = LockOptions::forever}, stop.get_token()); });
  }
  std::uint64_t in_line = 0;
  while (in_line < waiter_count) {
    std::this_thread::sleep_for(milliseconds{100});
    in_line = 0;
    for (std::size_t i = 0; i < lock_count; ++i) in_line += holder.status(name_of(i))->waiter_count;
  }
  const double before = commands_processed(bench);
  const auto begin = steady_clock::now();
  std::this_thread::sleep_for(watch);
  const double commands = commands_processed(bench) - before - 1;  // the question itself
  const double rate = commands / (us_since(begin) / 1e6);
  stop.request_stop();
  return rate;
}

}  // namespace

Result handover_latency(LockBench& bench, const std::string& name) {
  LockClient first(bench.redis.uri());
  LockClient second(bench.redis.uri());
  RawRedisLock raw(bench.redis.address().host, bench.redis.port());
  std::vector<double> handovers;
  std::vector<double> round_trips;
  std::vector<double> ratios;
  const auto end = steady_clock::now() + bench.options.time;
  bench.progress.show(name);
  while (steady_clock::now() < end) {
    auto lock = first.acquire("bench:handover").value();
    steady_clock::time_point running;
    std::thread next([&] {
      const auto got = second.acquire("bench:handover", {.wait = LockOptions::forever});
      running = steady_clock::now();
    });
    while (first.status("bench:handover")->waiter_count == 0) std::this_thread::yield();
    auto begin = steady_clock::now();
    raw.ping();
    round_trips.push_back(us_since(begin));
    begin = steady_clock::now();
    lock.release();
    next.join();
    handovers.push_back(std::chrono::duration<double, std::micro>(running - begin).count());
    ratios.push_back(handovers.back() / round_trips.back());
  }
  const double in_round_trips = median(ratios);
  return {.name = name,
          .unit = "round trips",
          .ours = in_round_trips,
          .reference = allowed_round_trips,
          .reference_name = "round trips allowed",
          .ratio = allowed_round_trips / in_round_trips,
          .target = 1,
          .extra = {{"handover_us", median(handovers)}, {"round_trip_us", median(round_trips)}}};
}

Result idle_waiters(LockBench& bench, const std::string& name, std::size_t locks) {
  bench.progress.show(name + ": one process");
  const milliseconds watch = std::max(bench.options.time / 2, milliseconds{2'000});
  // A client that waits alone in a hundred lines looks at each of them after 100 to 200 seconds.
  const bool seldom = locks > 1 && !bench.options.quick;
  const double one_process =
      idle_cost(bench, {.locks = locks}, seldom ? std::max(watch, milliseconds{300'000}) : watch);
  bench.progress.show(name + ": two processes");
  const double two_processes = idle_cost(bench, {.locks = locks, .clients = 2}, watch);
  return {.name = name,
          .unit = "commands/s",
          .ours = one_process,
          .reference = 20,
          .reference_name = "commands/s allowed",
          .ratio = 20 / one_process,
          .target = 1,
          .extra = {{"commands_per_s_of_two_processes", two_processes}}};
}

}  // namespace leasehold::bench
