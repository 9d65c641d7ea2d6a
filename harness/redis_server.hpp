#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "certificates.hpp"
#include "data.hpp"
#include "free_port.hpp"
#include "process.hpp"
#include "resp_client.hpp"
#include "temp_dir.hpp"

namespace leasehold::harness {

/// A Redis to test with and to inspect. Thread-safe.
class RedisEndpoint {
 public:
  explicit RedisEndpoint(RedisAddress address);
  virtual ~RedisEndpoint() = default;
  RedisEndpoint(const RedisEndpoint&) = delete;
  RedisEndpoint& operator=(const RedisEndpoint&) = delete;

  /// redis://127.0.0.1:PORT, with the password when there is one.
  std::string uri() const { return uri_through(address_.port); }
  /// The same with another port: that of a FaultProxy in front of it.
  std::string uri_through(int port) const;
  const RedisAddress& address() const { return address_; }
  int port() const { return address_.port; }

  /// Runs a command on a connection of its own, which is opened again when it has broken.
  /// An error reply is returned; throws when there is no reply.
  RedisReply command(const std::vector<std::string>& words) const;
  /// The keys that match, sorted.
  std::vector<std::string> keys(const std::string& pattern) const;

 private:
  RedisAddress address_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<RespClient> client_;
};

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

/// A private redis-server on a loopback port and a unix socket, and on a port for TLS if wanted.
/// The constructor returns when it answers. Apart from command() and keys(), for one thread at a
/// time.
class RedisServer : public RedisEndpoint {
 public:
  explicit RedisServer(RedisServerOptions options = {});
  ~RedisServer() override;

  std::filesystem::path socket_path() const { return dir_.path() / "redis.sock"; }
  pid_t pid() const;
  int tls_port() const { return tls_port_.value().number(); }
  /// rediss://127.0.0.1:PORT, with the password when there is one. `query` are the options after ?.
  std::string tls_uri(const std::string& query) const { return tls_uri_through(tls_port(), query); }
  /// The same with another port: that of a FaultProxy in front of it.
  std::string tls_uri_through(int port, const std::string& query) const;

  /// Stops the server (SIGSTOP); connections stay open. No thread runs once pause() returns.
  void pause();
  void resume();
  /// Kills the server (SIGKILL).
  void kill();
  /// Shuts down in an orderly way. Data that is only in memory is lost.
  void stop();
  /// Starts again on the same port after kill() or stop().
  void start();
  /// stop() and start(). `kept` writes the data to disk first, `lost` empties the disk.
  void restart(Data data);

 private:
  RedisServer(FreePort port, RedisServerOptions options);
  void wait_until_ready();
  std::string log_tail() const;

  FreePort port_;
  std::optional<FreePort> tls_port_;
  RedisServerOptions options_;
  TempDir dir_;
  std::unique_ptr<Process> process_;
};

}  // namespace leasehold::harness
