
#include <atomic>
#include <cstdlib>
#include <memory>

#include "tests/support/shared_servers.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

namespace {
std::atomic<bool> redis_is_used = false;
}

bool shared_redis_is_used() { return redis_is_used; }

RedisEndpoint& shared_redis() {
  redis_is_used = true;
  static const std::unique_ptr<RedisEndpoint> redis = []() -> std::unique_ptr<RedisEndpoint> {
    if (const char* url = std::getenv("LEASEHOLD_TEST_REDIS_URL"); url != nullptr && *url != '\0') {
      return std::make_unique<RedisEndpoint>(RedisAddress::parse(url));
    }
    return std::make_unique<RedisServer>();
  }();
  return *redis;
}

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
