#include "redis_process.hpp"

#include <cstdlib>
#include <fstream>
#include <regex>
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

RedisAddress address_of(int port, const std::string& password) {
  RedisAddress address;
  address.port = port;
  address.password = password;
  return address;
}

[[noreturn]] void throw_not_installed(const std::system_error& error) {
  throw std::runtime_error(std::string{error.what()} +
                           " (Debian package redis-server; run ./dev setup)");
}

}  // namespace

std::string redis_server_program() {
  const char* name = std::getenv("REDIS_SERVER");
  return name != nullptr && *name != '\0' ? name : "redis-server";
}

int redis_major_version() {
  try {
    const std::string text = run({.argv = {redis_server_program(), "--version"}}).output;
    std::smatch major;
    if (std::regex_search(text, major, std::regex{R"(\bv=(\d+)\.)"})) return std::stoi(major[1]);
    throw std::runtime_error(redis_server_program() + " does not say its version: " + text);
  } catch (const std::system_error& error) {
    throw_not_installed(error);
  }
}

RedisProcess::RedisProcess(FreePort port, Mode mode, const std::string& password)
    : RedisEndpoint(address_of(port.number(), password)), port_(std::move(port)), mode_(mode) {}

RedisProcess::~RedisProcess() = default;

void RedisProcess::configure(const std::vector<std::string>& lines) {
  std::filesystem::create_directory(data_dir());
  std::ofstream config(config_file());
  config << "bind 127.0.0.1\n"
         << "port " << port_.number() << "\n"
         << "dir " << data_dir().string() << "\n";
  if (!address().password.empty()) config << "requirepass " << address().password << "\n";
  for (const auto& line : lines) config << line << "\n";
}

pid_t RedisProcess::pid() const {
  if (!process_) throw std::logic_error("this Redis does not run");
  return process_->pid();
}

void RedisProcess::pause() {
  if (!process_) throw std::logic_error("this Redis does not run");
  is_up_ = false;
  process_->pause();
}

void RedisProcess::resume() {
  if (!process_) return;
  process_->resume();
  is_up_ = true;
}

void RedisProcess::kill() {
  is_up_ = false;
  process_.reset();
}

void RedisProcess::stop() {
  if (!process_) return;
  is_up_ = false;
  process_->resume();
  process_->kill(SIGTERM);
  // A primary waits up to 10 s for a replica that is behind.
  if (!process_->wait(seconds{30})) throw std::runtime_error("Redis does not stop: " + log_tail());
  process_.reset();
}

void RedisProcess::start() {
  if (process_) throw std::logic_error("this Redis runs already");
  std::vector<std::string> argv = {redis_server_program(), config_file().string()};
  if (mode_ == Mode::sentinel) argv.emplace_back("--sentinel");
  try {
    process_ = std::make_unique<Process>(ProcessOptions{
        .argv = std::move(argv),
        .out = Output::file(dir() / "log"),
        .err = Output::standard_output(),
    });
  } catch (const std::system_error& error) {
    throw_not_installed(error);
  }
  wait_until_ready();
  is_up_ = true;
}

void RedisProcess::wait_until_ready() {
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

std::string RedisProcess::log_tail() const { return file_tail(dir() / "log"); }

}  // namespace leasehold::harness
