#pragma once

#include <optional>

#include "harness/postgres_server.hpp"
#include "harness/redis_server.hpp"
#include "harness/temp_dir.hpp"
#include "stores.hpp"

namespace leasehold::cli {

/// Stores of the demo's own, which disappear with this object.
class PrivateStores {
 public:
  explicit PrivateStores(bool on_servers) {
    if (on_servers) {
      redis_.emplace();
      postgres_.emplace();
    }
  }

  Stores stores() const {
    StoreFlags flags;
    flags.redis = redis_ ? redis_->uri() : "sqlite:" + (dir_.path() / "locks.db").string();
    flags.database = postgres_ ? postgres_->uri() : "sqlite:" + (dir_.path() / "tasks.db").string();
    return {flags, {}};
  }

 private:
  harness::TempDir dir_;
  std::optional<harness::RedisServer> redis_;
  std::optional<harness::PostgresServer> postgres_;
};

}  // namespace leasehold::cli
