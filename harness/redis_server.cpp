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
  if (options_.tls) {
    tls_port_.emplace();
    const RedisServerTls& tls = *options_.tls;
    const bool demands = tls.clients == RedisServerTls::Clients::with_certificate;
    lines.insert(lines.end(),
                 {"tls-port " + std::to_string(tls_port_->number()),
                  "tls-cert-file " + tls.own.certificate.string(),
                  "tls-key-file " + tls.own.key.string(), "tls-ca-cert-file " + tls.ca.string(),
                  std::string("tls-auth-clients ") + (demands ? "yes" : "no")});
  }
  lines.insert(lines.end(), options_.config_lines.begin(), options_.config_lines.end());
  configure(lines);
  RedisServer::start();
}

std::string RedisServer::tls_uri_through(int port, const std::string& query) const {
  std::string uri = uri_through(port);
  uri.replace(0, uri.find(':'), "rediss");
  return uri + "?" + query;
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
