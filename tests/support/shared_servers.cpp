#include <cstdlib>
#include <memory>

#include "postgres_server.hpp"
#include "redis_server.hpp"

namespace leasehold::testing {

RedisEndpoint& shared_redis() {
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
