#include "redis_server.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "file_tail.hpp"

namespace leasehold::harness {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

RedisAddress address_of(int port, const RedisServerOptions& options) {
  RedisAddress address;
  address.port = port;
  address.password = options.password;
  return address;
}

std::string credentials_of(const RedisAddress& address) {
  if (address.password.empty()) return "";
  return address.user + ":" + address.password + "@";
}

std::string database_of(const RedisAddress& address) {
  return address.database == 0 ? "" : "/" + std::to_string(address.database);
}

}  // namespace

RedisEndpoint::RedisEndpoint(RedisAddress address) : address_(std::move(address)) {}

std::string RedisEndpoint::uri_through(int port) const {
  return "redis://" + credentials_of(address_) + address_.host + ":" + std::to_string(port) +
         database_of(address_);
}

RedisReply RedisEndpoint::command(const std::vector<std::string>& words) const {
  const std::scoped_lock hold{mutex_};
  // Only using a connection shows that it is from before a restart. So a probe is sent first, which
  // may be sent twice; the command may not.
  if (client_) {
    try {
      client_->command({"PING"});
    } catch (const std::exception&) {
      client_.reset();
    }
  }
  if (!client_) client_ = std::make_unique<RespClient>(address_);
  try {
    return client_->command(words);
  } catch (...) {
    client_.reset();  // a late reply must not be taken for the next one
    throw;
  }
}

std::vector<std::string> RedisEndpoint::keys(const std::string& pattern) const {
  const RedisReply reply = command({"KEYS", pattern});
  if (reply.is_error()) throw std::runtime_error("KEYS: " + reply.string);
  std::vector<std::string> result;
  for (const auto& element : reply.elements) result.push_back(element.string);
  std::sort(result.begin(), result.end());
  return result;
}

RedisServer::RedisServer(RedisServerOptions options)
    : RedisServer(FreePort{}, std::move(options)) {}

RedisServer::RedisServer(FreePort port, RedisServerOptions options)
    : RedisEndpoint(address_of(port.number(), options)),
      port_(std::move(port)),
      options_(std::move(options)) {
  std::filesystem::create_directory(dir_.path() / "data");
  std::ofstream config(dir_.path() / "redis.conf");
  config << "bind 127.0.0.1\n"
         << "port " << port_.number() << "\n"
         << "unixsocket " << socket_path().string() << "\n"
         << "dir " << (dir_.path() / "data").string() << "\n"
         << "save \"\"\n";
  if (options_.persistence == RedisServerOptions::Persistence::append_only) {
    config << "appendonly yes\nappendfsync always\n";
  }
  if (options_.tls) {
    tls_port_.emplace();
    const RedisServerTls& tls = *options_.tls;
    const bool demands = tls.clients == RedisServerTls::Clients::with_certificate;
    config << "tls-port " << tls_port_->number() << "\n"
           << "tls-cert-file " << tls.own.certificate.string() << "\n"
           << "tls-key-file " << tls.own.key.string() << "\n"
           << "tls-ca-cert-file " << tls.ca.string() << "\n"
           << "tls-auth-clients " << (demands ? "yes" : "no") << "\n";
  }
  if (!options_.password.empty()) config << "requirepass " << options_.password << "\n";
  for (const auto& line : options_.config_lines) config << line << "\n";
  config.close();
  start();
}

RedisServer::~RedisServer() = default;

std::string RedisServer::tls_uri_through(int port, const std::string& query) const {
  return "rediss://" + credentials_of(address()) + address().host + ":" + std::to_string(port) +
         database_of(address()) + "?" + query;
}

pid_t RedisServer::pid() const {
  if (!process_) throw std::logic_error("this Redis does not run");
  return process_->pid();
}

void RedisServer::pause() {
  if (!process_) throw std::logic_error("this Redis does not run");
  process_->pause();
}

void RedisServer::resume() {
  if (process_) process_->resume();
}

void RedisServer::kill() { process_.reset(); }

void RedisServer::stop() {
  if (!process_) return;
  process_->resume();
  process_->kill(SIGTERM);
  if (!process_->wait(seconds{10})) throw std::runtime_error("Redis does not stop: " + log_tail());
  process_.reset();
}

void RedisServer::start() {
  if (process_) throw std::logic_error("this Redis runs already");
  try {
    process_ = std::make_unique<Process>(ProcessOptions{
        .argv = {"redis-server", (dir_.path() / "redis.conf").string()},
        .out = Output::file(dir_.path() / "log"),
        .err = Output::standard_output(),
    });
  } catch (const std::system_error& error) {
    throw std::runtime_error(std::string{error.what()} +
                             " (Debian package redis-server; run ./dev setup)");
  }
  wait_until_ready();
  // Saved by restart() to be read once: a later kill() must find what it would without it.
  if (options_.persistence == RedisServerOptions::Persistence::none) {
    std::filesystem::remove(dir_.path() / "data" / "dump.rdb");
  }
}

void RedisServer::wait_until_ready() {
  const auto deadline = steady_clock::now() + seconds{30};
  while (process_->running() && steady_clock::now() < deadline) {
    try {
      if (RespClient{address()}.command({"PING"}).string == "PONG") return;
    } catch (const std::exception&) {
      // not listening yet
    }
    std::this_thread::sleep_for(milliseconds{2});
  }
  process_.reset();
  throw std::runtime_error("Redis does not start: " + log_tail());
}

void RedisServer::restart(Data data) {
  if (data == Data::kept) {
    if (const auto reply = command({"SAVE"}); reply.is_error()) {
      throw std::runtime_error("SAVE: " + reply.string);
    }
    stop();
  } else {
    kill();
    std::filesystem::remove_all(dir_.path() / "data");
    std::filesystem::create_directory(dir_.path() / "data");
  }
  start();
}

std::string RedisServer::log_tail() const { return file_tail(dir_.path() / "log"); }

}  // namespace leasehold::harness
