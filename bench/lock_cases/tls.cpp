#include <stdexcept>

#include "duel.hpp"
#include "harness/certificates.hpp"
#include "leasehold/lock_client.hpp"
#include "lock_cases/cases.hpp"
#include "lock_cases/pair_cost.hpp"

namespace leasehold::bench {
namespace {

Step pairs(LockClient& client) {
  return [&client]() -> std::size_t {
    auto lock = client.acquire("bench");
    if (!lock || lock->release() != Release::done) throw std::runtime_error("lock not released");
    return 1;
  };
}

}  // namespace

Result tls(LockBench& bench, const std::string& name) {
  harness::Certificates certificates;
  const auto& ca = certificates.authority().certificate;
  harness::RedisServer redis(harness::RedisServerOptions{
      .tls = harness::RedisServerTls{.own = certificates.issue(), .ca = ca}});
  LockClient over_tls(redis.tls_uri("ca=" + ca.string()));
  LockClient plain(redis.uri());
  Crew tls_crew({pairs(over_tls)});
  Crew plain_crew({pairs(plain)});
  CostMeter tls_cost(redis.pid());
  CostMeter plain_cost(redis.pid());
  const Duel duel = fight(
      bench.options, name, bench.progress,
      [&](auto slice) { return tls_cost.run(tls_crew, slice); },
      [&](auto slice) { return plain_cost.run(plain_crew, slice); });
  auto costs = tls_cost.fields("");
  for (auto& field : plain_cost.fields("reference_")) costs.push_back(std::move(field));
  costs.emplace_back("cpu_ratio", tls_cost.us() / plain_cost.us());
  return {.name = name,
          .unit = "acquire+release pairs/s",
          .ours = duel.ours.rate(),
          .reference = duel.reference.rate(),
          .reference_name = "the same without TLS",
          .ratio = duel.ratio,
          .target = 0.6,
          .extra = std::move(costs)};
}

}  // namespace leasehold::bench
