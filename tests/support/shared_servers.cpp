
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "harness/redis_cluster.hpp"
#include "harness/redis_sentinels.hpp"
#include "tests/support/shared_servers.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

namespace {

std::atomic<bool> redis_is_used = false;

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

RedisUnderTest start_plain() {
  auto server = std::make_shared<RedisServer>();
  return {server, server->uri()};
}

RedisUnderTest start_with_tls() {
  static Certificates certificates;
  static const CertificatePair own = certificates.issue();
  const auto& ca = certificates.authority().certificate;
  auto server = std::make_shared<RedisServer>(
      RedisServerOptions{.tls = RedisServerTls{.own = own, .ca = ca}});
  return {server, server->tls_uri("ca=" + ca.string())};
}

RedisUnderTest start_with_sentinels() {
  // A failover that no test asked for would lose grants: on a busy machine, a server may well not
  // answer for a second.
  auto servers = std::make_shared<RedisSentinels>(
      RedisSentinelsOptions{.down_after = std::chrono::seconds{30}});
  return {servers, servers->uri()};
}

RedisUnderTest start_cluster() {
  auto cluster =
      std::make_shared<RedisCluster>(RedisClusterOptions{.node_timeout = std::chrono::seconds{30}});
  return {cluster, cluster->uri()};
}

struct Topology {
  std::string_view name;
  RedisUnderTest (*start)();
};

constexpr std::array topologies{Topology{"plain", start_plain}, Topology{"tls", start_with_tls},
                                Topology{"sentinel", start_with_sentinels},
                                Topology{"cluster", start_cluster}};

const Topology& topology() {
  std::string wanted = from_environment("LEASEHOLD_TEST_TOPOLOGY");
  if (wanted.empty()) wanted = topologies.front().name;
  for (const Topology& each : topologies) {
    if (each.name == wanted) return each;
  }
  throw std::runtime_error("LEASEHOLD_TEST_TOPOLOGY=" + wanted + " is unknown");
}

const RedisUnderTest& shared_redis_under_test() {
  redis_is_used = true;
  static const RedisUnderTest redis = [] {
    const std::string url = from_environment("LEASEHOLD_TEST_REDIS_URL");
    if (url.empty() || topology().start != start_plain) return start_redis();
    return RedisUnderTest{std::make_shared<RedisEndpoint>(RedisAddress::parse(url)), url};
  }();
  return redis;
}

}  // namespace

bool shared_redis_is_used() { return redis_is_used; }

RedisUnderTest start_redis() { return topology().start(); }

RedisEndpoint& shared_redis() { return *shared_redis_under_test().server; }

const std::string& shared_redis_uri() { return shared_redis_under_test().uri; }

PostgresEndpoint& shared_postgres() {
  static const std::unique_ptr<PostgresEndpoint> server =
      []() -> std::unique_ptr<PostgresEndpoint> {
    const char* url = std::getenv("LEASEHOLD_TEST_POSTGRES_URL");
    if (url != nullptr && *url != '\0') return std::make_unique<PostgresEndpoint>(url);
    return std::make_unique<PostgresServer>();
  }();
  return *server;
}

}  // namespace leasehold::testing
