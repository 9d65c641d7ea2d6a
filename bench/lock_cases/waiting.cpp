#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "leasehold/lock_client.hpp"
#include "lock_cases/cases.hpp"
#include "raw_redis.hpp"

namespace leasehold::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t waiter_count = 1'000;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.at(values.size() / 2);
}

double us_since(steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(steady_clock::now() - begin).count();
}

/// All commands that Redis executed since it started, those inside of scripts counted too.
double commands_processed(LockBench& bench) {
  const std::string info = bench.redis.command({"INFO", "stats"}).string;
  const std::string field = "total_commands_processed:";
  return std::stod(info.substr(info.find(field) + field.size()));
}

/// Commands a second while `waiter_count` threads wait for `lock_count` locks.
double idle_cost(LockBench& bench, std::size_t lock_count) {
  LockClient holder(bench.redis.uri());
  LockClient client(bench.redis.uri());
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
  std::this_thread::sleep_for(std::max(bench.options.time / 2, milliseconds{2'000}));
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
          .reference = 4,
          .reference_name = "round trips allowed",
          .ratio = 4 / in_round_trips,
          .target = 1,
          .extra = {{"handover_us", median(handovers)}, {"round_trip_us", median(round_trips)}}};
}

Result idle_waiters(LockBench& bench, const std::string& name) {
  bench.progress.show(name + ": one lock");
  const double one_lock = idle_cost(bench, 1);
  bench.progress.show(name + ": 100 locks");
  const double many_locks = idle_cost(bench, 100);
  return {.name = name,
          .unit = "commands/s",
          .ours = one_lock,
          .reference = 20,
          .reference_name = "commands/s allowed",
          .ratio = 20 / one_lock,
          .target = 1,
          .extra = {{"commands_per_s_100_locks", many_locks}}};
}

}  // namespace leasehold::bench
