#include "harness/redis_cluster.hpp"
#include "harness/redis_sentinels.hpp"
#include "lock_cases/cases.hpp"
#include "lock_cases/pairs.hpp"

namespace leasehold::bench {

Result cluster(LockBench& bench, const std::string& name) {
  const harness::RedisCluster three;
  LockClient in_cluster(three.uri());
  LockClient in_one(bench.redis.uri());
  Result result =
      compare_pairs(bench, name, pairs(in_cluster, 64), pairs(in_one, 64), std::nullopt);
  result.reference_name = "the same on one Redis";
  result.target = 0.8;
  return result;
}

Result replicas_majority(LockBench& bench, const std::string& name) {
  const harness::RedisSentinels servers;  // a primary with two replicas
  LockClient confirmed(servers.uri(), {.replicas = {.needed = RedisReplicas::Needed::majority}});
  LockClient unconfirmed(servers.uri());
  Result result =
      compare_pairs(bench, name, pairs(confirmed, 64), pairs(unconfirmed, 64), std::nullopt);
  result.reference_name = "the same without waiting for replicas";
  result.target = 0.3;
  return result;
}

}  // namespace leasehold::bench
