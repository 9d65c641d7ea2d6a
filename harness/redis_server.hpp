#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data.hpp"
#include "free_port.hpp"
#include "redis_endpoint.hpp"
#include "redis_process.hpp"

namespace leasehold::harness {

struct RedisServerOptions {
  enum class Persistence { none, append_only };

  /// append_only: every write reaches a file before its reply, so that kill() loses nothing.
  /// Slower.
  Persistence persistence = Persistence::none;
  std::string password;                   ///< empty: none asked for
  std::vector<std::string> config_lines;  ///< lines of redis.conf, e.g. "maxmemory 2mb"
};

/// A private Redis server (see redis_server_program()) on a loopback port and a unix socket. The
/// constructor returns when it answers. Apart from command(), keys() and is_up(), for one thread at
/// a time.
class RedisServer : public RedisProcess {
 public:
  explicit RedisServer(RedisServerOptions options = {});
  RedisServer(FreePort port, RedisServerOptions options);

  std::filesystem::path socket_path() const { return dir() / "redis.sock"; }

  void start() override;
  /// stop() and start(). `kept` writes the data to disk first, `lost` empties the disk.
  void restart(Data data);

 private:
  RedisServerOptions options_;
};

}  // namespace leasehold::harness
