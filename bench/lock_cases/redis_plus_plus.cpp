#include "leasehold/redis_plus_plus.hpp"

#include <sw/redis++/redis++.h>

#include <memory>

#include "lock_cases/cases.hpp"
#include "lock_cases/pairs.hpp"

namespace leasehold::bench {

Result redis_plus_plus(LockBench& bench, const std::string& name) {
  sw::redis::ConnectionOptions options;
  options.host = bench.redis.address().host;
  options.port = bench.redis.port();
  options.connect_timeout = options.socket_timeout = std::chrono::seconds{5};
  LockClient lent(lend_redis(std::make_shared<sw::redis::Redis>(options)));
  LockClient built_in(bench.redis.uri());
  Result result = compare_pairs(bench, name, pairs(lent, 1), pairs(built_in, 1), bench.redis.pid());
  result.reference_name = "the library's own link";
  result.target = 0.8;
  return result;
}

}  // namespace leasehold::bench
