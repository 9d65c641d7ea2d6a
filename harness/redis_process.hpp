#pragma once

#include <sys/types.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "free_port.hpp"
#include "process.hpp"
#include "redis_endpoint.hpp"
#include "temp_dir.hpp"

namespace leasehold::harness {

/// The server program that is tested with: what the environment variable REDIS_SERVER names (a
/// path, or a name that is searched in PATH), by default redis-server. valkey-server works too.
std::string redis_server_program();
/// 7 when that program is Redis 7.0.15. Throws when it cannot be run.
int redis_major_version();

/// That program as a child process on a loopback port, with a configuration file in a temporary
/// directory: a RedisServer or a RedisSentinel. Apart from command(), keys() and is_up(), for one
/// thread at a time.
class RedisProcess : public RedisEndpoint {
 public:
  ~RedisProcess() override;

  pid_t pid() const;
  /// False from kill() or stop() to start(), and from pause() to resume().
  bool is_up() const { return is_up_; }

  /// Stops the process (SIGSTOP); connections stay open. No thread runs once pause() returns.
  void pause();
  void resume();
  /// Kills the process (SIGKILL).
  void kill();
  /// Shuts down in an orderly way. Data that is only in memory is lost.
  void stop();
  /// Starts again on the same port after kill() or stop(). Returns when it answers.
  virtual void start();

 protected:
  enum class Mode { server, sentinel };

  RedisProcess(FreePort port, Mode mode, const std::string& password);
  /// Before the first start. Later the program itself may change the file: Sentinel does, and what
  /// it sends to servers does.
  void configure(const std::vector<std::string>& lines);
  const std::filesystem::path& dir() const { return dir_.path(); }
  std::filesystem::path data_dir() const { return dir_.path() / "data"; }

 private:
  std::filesystem::path config_file() const { return dir_.path() / "redis.conf"; }
  void wait_until_ready();
  std::string log_tail() const;

  FreePort port_;
  const Mode mode_;
  TempDir dir_;
  std::unique_ptr<Process> process_;
  std::atomic<bool> is_up_ = false;
};

}  // namespace leasehold::harness
