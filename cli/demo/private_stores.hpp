#pragma once

#include <optional>
#include <string>
#include <utility>

#include "harness/postgres_server.hpp"
#include "harness/redis_server.hpp"
#include "harness/temp_dir.hpp"
#include "stores.hpp"

namespace leasehold::cli {

/// Stores of the demo's own, which disappear with this object. Only the Redis may be somebody
/// else's.
class PrivateStores {
 public:
  PrivateStores(bool on_servers, std::string redis_uri) : redis_uri_(std::move(redis_uri)) {
    if (on_servers && redis_uri_.empty()) redis_uri_ = redis_.emplace().uri();
    if (on_servers) postgres_.emplace();
  }

  Stores stores() const {
    StoreFlags flags;
    flags.redis = redis_uri_.empty() ? "sqlite:" + (dir_.path() / "locks.db").string() : redis_uri_;
    flags.database = postgres_ ? postgres_->uri() : "sqlite:" + (dir_.path() / "tasks.db").string();
    return {flags, {}};
  }

 private:
  harness::TempDir dir_;
  std::string redis_uri_;
  std::optional<harness::RedisServer> redis_;
  std::optional<harness::PostgresServer> postgres_;
};

}  // namespace leasehold::cli
