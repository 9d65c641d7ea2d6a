#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data.hpp"
#include "free_port.hpp"
#include "process.hpp"
#include "temp_dir.hpp"

namespace leasehold::harness {

/// A PostgreSQL to test with, and to inspect through psql. Thread-safe.
class PostgresEndpoint {
 public:
  /// A postgresql:// URI; its database is the one that is there already.
  explicit PostgresEndpoint(std::string uri);
  virtual ~PostgresEndpoint() = default;
  PostgresEndpoint(const PostgresEndpoint&) = delete;
  PostgresEndpoint& operator=(const PostgresEndpoint&) = delete;

  /// Of the database that is there already.
  const std::string& uri() const { return uri_; }
  std::string uri(const std::string& database) const;

  void create_database(const std::string& name) const;
  void drop_database(const std::string& name) const;
  /// Creates a database with a unique name, for one test. Returns the name.
  std::string create_fresh_database() const;

  /// Runs statements in a database (empty: the one that is there already), each by itself unless
  /// they say BEGIN. Returns the rows, columns separated by |. Throws with the server's message.
  std::string run_sql(const std::string& sql, const std::string& database = "") const;

 private:
  std::string uri_;
};

struct PostgresServerOptions {
  enum class Durability { off, on };

  /// on: commits wait for the disk, as in production. Much slower. Even when off, kill() loses
  /// nothing that was committed: only the loss of the machine would.
  Durability durability = Durability::off;
  int max_connections = 200;
  std::vector<std::string> config_lines;  ///< lines of postgresql.conf
  /// The URI of a primary: this server begins as a copy of it, and is its streaming standby.
  std::string standby_of;
};

/// A private PostgreSQL with a superuser `postgres` and no password, on a loopback port and a unix
/// socket. The constructor returns when it accepts connections, after a second or so. Apart from
/// what PostgresEndpoint offers, for one thread at a time.
class PostgresServer : public PostgresEndpoint {
 public:
  explicit PostgresServer(PostgresServerOptions options = {});
  ~PostgresServer() override;

  int port() const { return port_.number(); }
  /// With the port of a FaultProxy in front of it.
  static std::string uri_through(int port, const std::string& database = "postgres");
  /// The directory of the socket: `host` in a connection string.
  std::filesystem::path socket_dir() const { return dir_.path(); }
  pid_t pid() const;

  /// Stops the server and all backends (SIGSTOP); connections stay open.
  void pause();
  /// Stops one backend, as a disk that hangs would. False if this server has no such backend.
  bool pause_backend(pid_t pid);
  /// Ends every pause.
  void resume();
  /// Kills the server and all backends (SIGKILL). Committed data is there after start().
  void kill();
  /// Ends all connections and shuts down in an orderly way.
  void stop();
  /// Starts again on the same port after kill() or stop().
  void start();
  /// `kept`: stop() and start(). `lost`: a new, empty server in its place.
  void restart(Data data);

 private:
  PostgresServer(FreePort port, PostgresServerOptions options);
  void initialise();
  void make_data() const;
  void wait_until_ready();
  void remove_traces() const;
  std::vector<pid_t> backends() const;
  std::filesystem::path data_dir() const { return dir_.path() / "data"; }
  std::string log_tail() const;

  FreePort port_;
  PostgresServerOptions options_;
  TempDir dir_;
  std::unique_ptr<Process> process_;
  std::vector<pid_t> paused_backends_;
};

}  // namespace leasehold::harness
