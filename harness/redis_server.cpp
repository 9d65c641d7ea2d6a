#include "redis_server.hpp"

#include <stdexcept>
#include <utility>

namespace leasehold::harness {

RedisServer::RedisServer(RedisServerOptions options)
    : RedisServer(FreePort{}, std::move(options)) {}

RedisServer::RedisServer(FreePort port, RedisServerOptions options)
    : RedisProcess(std::move(port), Mode::server, options.password), options_(std::move(options)) {
  std::vector<std::string> lines = {"unixsocket " + socket_path().string(), "save \"\""};
  if (options_.persistence == RedisServerOptions::Persistence::append_only) {
    lines.insert(lines.end(), {"appendonly yes", "appendfsync always"});
  }
  lines.insert(lines.end(), options_.config_lines.begin(), options_.config_lines.end());
  configure(lines);
  RedisServer::start();
}

void RedisServer::start() {
  RedisProcess::start();
  // Saved by restart() to be read once: a later kill() must find what it would without it.
  if (options_.persistence == RedisServerOptions::Persistence::none) {
    std::filesystem::remove(data_dir() / "dump.rdb");
  }
}

void RedisServer::restart(Data data) {
  if (data == Data::kept) {
    if (const auto reply = command({"SAVE"}); reply.is_error()) {
      throw std::runtime_error("SAVE: " + reply.string);
    }
    stop();
  } else {
    kill();
    std::filesystem::remove_all(data_dir());
    std::filesystem::create_directory(data_dir());
  }
  start();
}

}  // namespace leasehold::harness
