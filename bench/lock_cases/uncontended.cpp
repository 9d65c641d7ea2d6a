#include <memory>

#include "lock_cases/cases.hpp"
#include "lock_cases/pairs.hpp"
#include "raw_redis.hpp"

namespace leasehold::bench {
namespace {

constexpr std::chrono::milliseconds default_ttl{30'000};  // the default of LockOptions

Step raw_pairs(const harness::RedisAddress& address, std::size_t thread) {
  auto names = lock_names(thread);
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
  std::vector<Step> raw;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    raw.push_back(raw_pairs(bench.redis.address(), thread));
  }
  Result result =
      compare_pairs(bench, name, pairs(client, threads), std::move(raw), bench.redis.pid());
  result.reference_name = "hiredis, one connection per thread";
  result.target = target;
  return result;
}

}  // namespace leasehold::bench
