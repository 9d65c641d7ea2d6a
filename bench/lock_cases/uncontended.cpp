#include <memory>
#include <stdexcept>

#include "duel.hpp"
#include "leasehold/lock_client.hpp"
#include "lock_cases/cases.hpp"
#include "lock_cases/pair_cost.hpp"
#include "raw_redis.hpp"

namespace leasehold::bench {
namespace {

constexpr std::size_t locks_a_thread = 16;
constexpr std::chrono::milliseconds default_ttl{30'000};  // the default of LockOptions

std::vector<std::string> names_for(std::size_t thread) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < locks_a_thread; ++i) {
    names.push_back("bench:" + std::to_string(thread) + ":" + std::to_string(i));
  }
  return names;
}

Step our_pairs(LockClient& client, std::size_t thread) {
  return [&client, names = names_for(thread), next = std::size_t{0}]() mutable -> std::size_t {
    auto lock = client.acquire(names[next++ % names.size()]);
    if (!lock || lock->release() != Release::done) throw std::runtime_error("lock not released");
    return 1;
  };
}

Step raw_pairs(const harness::RedisAddress& address, std::size_t thread) {
  auto names = names_for(thread);
  for (auto& name : names) name = "raw:{" + name + "}";
  return [raw = std::make_shared<RawRedisLock>(address.host, address.port), names,
          owner = std::string(32, 'a'), next = std::size_t{0}]() mutable -> std::size_t {
    const std::string& key = names[next++ % names.size()];
    raw->acquire(key, owner, default_ttl);
    raw->release(key, owner);
    return 1;
  };
}

}  // namespace

Result uncontended(LockBench& bench, const std::string& name, std::size_t threads, double target) {
  LockClient client(bench.redis.uri());
  std::vector<Step> ours;
  std::vector<Step> reference;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    ours.push_back(our_pairs(client, thread));
    reference.push_back(raw_pairs(bench.redis.address(), thread));
  }
  Crew our_crew(std::move(ours));
  Crew raw_crew(std::move(reference));
  CostMeter our_cost(bench.redis.pid());
  CostMeter raw_cost(bench.redis.pid());
  const Duel duel = fight(
      bench.options, name, bench.progress,
      [&](auto slice) { return our_cost.run(our_crew, slice); },
      [&](auto slice) { return raw_cost.run(raw_crew, slice); });
  auto costs = our_cost.fields("");
  for (auto& field : raw_cost.fields("reference_")) costs.push_back(std::move(field));
  costs.emplace_back("cpu_ratio", our_cost.us() / raw_cost.us());
  return {.name = name,
          .unit = "acquire+release pairs/s",
          .ours = duel.ours.rate(),
          .reference = duel.reference.rate(),
          .reference_name = "hiredis, one connection per thread",
          .ratio = duel.ratio,
          .target = target,
          .extra = std::move(costs)};
}

}  // namespace leasehold::bench
