#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "certificates.hpp"
#include "data.hpp"
#include "free_port.hpp"
#include "redis_endpoint.hpp"
#include "redis_process.hpp"

namespace leasehold::harness {

/// How a Redis speaks TLS.
struct RedisServerTls {
  enum class Clients { any, with_certificate };

  CertificatePair own;
  std::filesystem::path ca;  ///< who issues the certificates of clients
  Clients clients = Clients::any;
};

struct RedisServerOptions {
  enum class Persistence { none, append_only };

  /// append_only: every write reaches a file before its reply, so that kill() loses nothing.
  /// Slower.
  Persistence persistence = Persistence::none;
  std::string password;                   ///< empty: none asked for
  std::vector<std::string> config_lines;  ///< lines of redis.conf, e.g. "maxmemory 2mb"
  std::optional<RedisServerTls> tls;      ///< on a port of its own, beside the plain one
};

/// A private Redis server (see redis_server_program()) on a loopback port and a unix socket,
/// and on a port for TLS if wanted. The constructor returns when it answers. Apart from command(),
/// keys() and is_up(), for one thread at a time.
class RedisServer : public RedisProcess {
 public:
  explicit RedisServer(RedisServerOptions options = {});
  RedisServer(FreePort port, RedisServerOptions options);

  std::filesystem::path socket_path() const { return dir() / "redis.sock"; }
  int tls_port() const { return tls_port_.value().number(); }
  /// rediss://127.0.0.1:PORT, with the password when there is one. `query` are the options after ?.
  std::string tls_uri(const std::string& query) const { return tls_uri_through(tls_port(), query); }
  /// The same with another port: that of a FaultProxy in front of it.
  std::string tls_uri_through(int port, const std::string& query) const;

  void start() override;
  /// stop() and start(). `kept` writes the data to disk first, `lost` empties the disk.
  void restart(Data data);

 private:
  std::optional<FreePort> tls_port_;
  RedisServerOptions options_;
};

}  // namespace leasehold::harness
