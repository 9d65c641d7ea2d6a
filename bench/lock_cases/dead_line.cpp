#include <algorithm>
#include <stdexcept>
#include <thread>

#include "duel.hpp"
#include "leasehold/lock_client.hpp"
#include "lock_cases/cases.hpp"
#include "lock_cases/server_work.hpp"
#include "redis/redis_lock_store.hpp"
#include "support/random.hpp"

namespace leasehold::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int dead_count = 5'000;
constexpr double allowed_us = 1'000;

/// So many clients join the line and vanish: each has a store of its own, and none of them listens.
void add_dead_waiters(const std::shared_ptr<RedisLink>& link, const std::string& lock) {
  for (int i = 0; i < dead_count; ++i) {
    redis::RedisLockStore store(link, link,
                                {.runner = RunnerId::of_this_process(),
                                 .linger = milliseconds{3'600'000},
                                 .keep_counters = milliseconds{3'600'000}});
    const std::string owner = random_hex(16);
    store.acquire({.name = lock,
                   .owner = owner,
                   .ttl = milliseconds{30'000},
                   .heartbeat_every = milliseconds{10'000},
                   .attempt = Attempt::later,
                   .join = Join::tail});
  }
}

void await_waiters(LockClient& client, const std::string& lock, std::size_t number) {
  while (client.status(lock)->waiter_count < number) std::this_thread::sleep_for(milliseconds{5});
}

struct DeadLineCost {
  std::vector<double> scripts;  // µs, the longest last
  double ms = 0;                // until the living waiter had the lock
  double cpu_us = 0;            // of Redis for a script, with reading and writing
};

std::vector<double> script_times(LockBench& bench) {
  std::vector<double> times;
  for (const auto& entry : bench.redis.command({"SLOWLOG", "GET", "-1"}).elements) {
    const std::string& command = entry.elements.at(3).elements.at(0).string;
    if (command == "EVALSHA") times.push_back(static_cast<double>(entry.elements.at(2).integer));
  }
  std::sort(times.begin(), times.end());
  if (times.empty()) throw std::runtime_error("Redis has noted no script");
  return times;
}

/// A lock whose line has thousands of dead waiters, and one living behind them, is released.
DeadLineCost release_before_the_dead(LockBench& bench, const std::shared_ptr<RedisLink>& link,
                                     const std::string& name) {
  LockClient holder(bench.redis.uri());
  LockClient client(bench.redis.uri());
  Lock lock = holder.acquire(name).value();
  add_dead_waiters(link, name);
  steady_clock::time_point got;
  std::jthread living([&] {
    const auto next = client.acquire(name, {.wait = LockOptions::forever});
    got = steady_clock::now();
  });
  await_waiters(holder, name, dead_count + 1);
  bench.redis.command({"SLOWLOG", "RESET"});
  ServerWork work(bench.redis);
  const auto begin = steady_clock::now();
  lock.release();
  living.join();
  work.stop();
  return {script_times(bench), std::chrono::duration<double, std::milli>(got - begin).count(),
          work.cpu_us() / work.calls("evalsha")};
}

}  // namespace

Result dead_line(LockBench& bench, const std::string& name) {
  // The commands inside the scripts are not noted: that would cost more than some of them.
  bench.redis.command({"CONFIG", "SET", "slowlog-log-slower-than", "100"});
  bench.redis.command({"CONFIG", "SET", "slowlog-max-len", "100000"});
  const auto link = connect_redis(bench.redis.uri());
  const int rounds = bench.options.quick ? 1 : 5;
  std::vector<double> longest;
  std::vector<double> usual;
  std::vector<double> scripts;
  std::vector<double> times;
  std::vector<double> cpu;
  for (int round = 0; round < rounds; ++round) {
    bench.progress.show(name + ": round " + std::to_string(round + 1) + " of " +
                        std::to_string(rounds));
    const DeadLineCost found =
        release_before_the_dead(bench, link, "bench:dead:" + std::to_string(round));
    longest.push_back(found.scripts.back());
    usual.push_back(found.scripts.at(found.scripts.size() / 2));
    scripts.push_back(static_cast<double>(found.scripts.size()));
    times.push_back(found.ms);
    cpu.push_back(found.cpu_us);
  }
  // Every round does the same. What makes one of them slower is other load on the machine.
  const double undisturbed = *std::min_element(longest.begin(), longest.end());
  return {.name = name,
          .unit = "µs of the longest script, in the best of all rounds",
          .ours = undisturbed,
          .reference = allowed_us,
          .reference_name = "µs allowed",
          .ratio = allowed_us / undisturbed,
          .target = 1,
          .extra = {{"longest_us_in_the_median_round", median(longest)},
                    {"median_script_us", median(usual)},
                    {"server_cpu_us_per_script", median(cpu)},
                    {"scripts", median(scripts)},
                    {"ms_until_the_living_had_it", median(times)}}};
}

}  // namespace leasehold::bench
