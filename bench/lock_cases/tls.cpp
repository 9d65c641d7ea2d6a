#include "harness/certificates.hpp"
#include "lock_cases/cases.hpp"
#include "lock_cases/pairs.hpp"

namespace leasehold::bench {

Result tls(LockBench& bench, const std::string& name) {
  harness::Certificates certificates;
  const auto& ca = certificates.authority().certificate;
  harness::RedisServer redis(harness::RedisServerOptions{
      .tls = harness::RedisServerTls{.own = certificates.issue(), .ca = ca}});
  LockClient over_tls(redis.tls_uri("ca=" + ca.string()));
  LockClient plain(redis.uri());
  Result result = compare_pairs(bench, name, pairs(over_tls, 1), pairs(plain, 1), redis.pid());
  result.reference_name = "the same without TLS";
  result.target = 0.6;
  return result;
}

}  // namespace leasehold::bench
