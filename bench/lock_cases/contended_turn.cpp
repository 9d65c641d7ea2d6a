#include <memory>
#include <stdexcept>

#include "duel.hpp"
#include "leasehold/lock_client.hpp"
#include "lock_cases/cases.hpp"
#include "lock_cases/server_work.hpp"
#include "raw_redis.hpp"

namespace leasehold::bench {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t client_count = 2;
constexpr std::size_t threads_in_turn = 8;
const std::string turn_lock = "bench:turn";

/// What one turn, or one pair of the reference, costs Redis.
struct TurnCost {
  double us = 0;        // that passed while Redis did what the clients sent
  double cpu_us = 0;    // with reading and writing
  double sent = 0;      // commands and scripts that the clients sent
  double commands = 0;  // those inside of scripts counted too
};

/// `sent`: the names of what the clients send.
TurnCost measure(LockBench& bench, Crew& crew, const std::vector<std::string>& sent) {
  ServerWork work(bench.redis);
  const double turns = crew.run(bench.options.time / 2).operations;
  work.stop();
  TurnCost cost{.cpu_us = work.cpu_us() / turns, .commands = work.commands() / turns};
  for (const std::string& command : sent) {
    cost.us += work.us(command) / turns;
    cost.sent += work.calls(command) / turns;
  }
  return cost;
}

Step our_turns(LockClient& client) {
  return [&client]() -> std::size_t {
    auto lock = client.acquire(turn_lock, {.wait = LockOptions::forever});
    if (lock->release() != Release::done) throw std::runtime_error("lock not released");
    return 1;
  };
}

Step raw_pairs(const harness::RedisAddress& address) {
  return [raw = std::make_shared<RawRedisLock>(address.host, address.port),
          owner = std::string(32, 'a')]() -> std::size_t {
    raw->acquire("raw:turn", owner, milliseconds{30'000});
    raw->release("raw:turn", owner);
    return 1;
  };
}

}  // namespace

Result contended_turn(LockBench& bench, const std::string& name) {
  std::vector<std::unique_ptr<LockClient>> clients;
  std::vector<Step> steps;
  for (std::size_t i = 0; i < client_count; ++i) {
    clients.push_back(std::make_unique<LockClient>(bench.redis.uri()));
    for (std::size_t j = 0; j < threads_in_turn; ++j) steps.push_back(our_turns(*clients.back()));
  }
  bench.progress.show(name);
  Crew contenders(std::move(steps));
  contenders.run(bench.options.slice);  // loads the scripts
  const TurnCost ours = measure(bench, contenders, {"evalsha"});
  Crew alone({raw_pairs(bench.redis.address())});
  const TurnCost reference = measure(bench, alone, {"set", "evalsha"});
  return {.name = name,
          .unit = "µs of Redis for a contended turn",
          .ours = ours.us,
          .reference = reference.us,
          .reference_name = "an uncontended pair by hand",
          .ratio = ours.us / reference.us,
          .goal = Goal::at_most,
          .extra = {{"server_cpu_us_per_turn", ours.cpu_us},
                    {"reference_server_cpu_us_per_pair", reference.cpu_us},
                    {"scripts_per_turn", ours.sent},
                    {"commands_per_turn", ours.commands},
                    {"reference_commands_per_pair", reference.commands}}};
}

}  // namespace leasehold::bench
