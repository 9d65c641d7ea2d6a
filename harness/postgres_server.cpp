#include "postgres_server.hpp"

#include <sys/shm.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
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
namespace fs = std::filesystem;

// Debian keeps the server's programs out of PATH, in a directory for each version.
fs::path find_bindir() {
  std::vector<fs::path> candidates;
  try {
    const Finished asked = run({.argv = {"pg_config", "--bindir"}});
    candidates.emplace_back(asked.output.substr(0, asked.output.find('\n')));
  } catch (const std::system_error&) {
    // pg_config belongs to another package; the server may be there without it
  }
  std::error_code none;
  std::vector<fs::path> versions;
  for (const auto& entry : fs::directory_iterator("/usr/lib/postgresql", none)) {
    versions.push_back(entry.path() / "bin");
  }
  std::sort(versions.rbegin(), versions.rend());
  candidates.insert(candidates.end(), versions.begin(), versions.end());
  for (const auto& candidate : candidates) {
    if (fs::exists(candidate / "postgres") && fs::exists(candidate / "initdb")) return candidate;
  }
  throw std::runtime_error(
      "PostgreSQL's programs not found (Debian package postgresql; run ./dev setup)");
}

const fs::path& bindir() {
  static const fs::path found = find_bindir();
  return found;
}

std::string quoted_identifier(const std::string& name) {
  std::string result = "\"";
  for (const char c : name) {
    result += c;
    if (c == '"') result += c;
  }
  return result + "\"";
}

struct ProcessState {
  pid_t parent = 0;
  char state = 'X';
};

ProcessState state_of(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return {};
  ProcessState result;
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return {};
  result.state = text[name_end + 2];
  std::from_chars(text.data() + name_end + 4, text.data() + text.size(), result.parent);
  return result;
}

void wait_until(const std::string& what, auto&& condition) {
  const auto deadline = steady_clock::now() + seconds{10};
  while (!condition()) {
    if (steady_clock::now() > deadline) throw std::runtime_error("timed out: " + what);
    std::this_thread::sleep_for(milliseconds{1});
  }
}

}  // namespace

PostgresEndpoint::PostgresEndpoint(std::string uri) : uri_(std::move(uri)) {
  if (!uri_.starts_with("postgresql://") && !uri_.starts_with("postgres://")) {
    throw std::invalid_argument("'" + uri_ +
                                "' is not postgresql://[user:password@]host[:port]/database");
  }
}

std::string PostgresEndpoint::uri(const std::string& database) const {
  const auto host = uri_.find("://") + 3;
  const auto options = std::min(uri_.find('?'), uri_.size());
  const auto path = std::min(uri_.find('/', host), options);
  return uri_.substr(0, path) + "/" + database + uri_.substr(options);
}

void PostgresEndpoint::create_database(const std::string& name) const {
  run_sql("CREATE DATABASE " + quoted_identifier(name));
}

void PostgresEndpoint::drop_database(const std::string& name) const {
  run_sql("DROP DATABASE IF EXISTS " + quoted_identifier(name) + " WITH (FORCE)");
}

std::string PostgresEndpoint::create_fresh_database() const {
  static std::atomic<int> count{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch() / milliseconds{1};
  std::string name = "test_" + std::to_string(::getpid()) + "_" + std::to_string(now) + "_" +
                     std::to_string(++count);
  create_database(name);
  return name;
}

std::string PostgresEndpoint::run_sql(const std::string& sql, const std::string& database) const {
  const TempDir dir;
  const auto file = dir.path() / "statements.sql";
  std::ofstream(file) << sql;
  Finished psql;
  try {
    psql = run({.argv = {"psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d",
                         database.empty() ? uri() : uri(database), "-f", file.string()}});
  } catch (const std::system_error& error) {
    throw std::runtime_error(std::string{error.what()} +
                             " (Debian package postgresql-client; run ./dev setup)");
  }
  if (!psql.status.success()) throw std::runtime_error("psql: " + psql.output + " in: " + sql);
  if (psql.output.ends_with('\n')) psql.output.pop_back();
  return psql.output;
}

std::string PostgresServer::uri_through(int port, const std::string& database) {
  return "postgresql://postgres@127.0.0.1:" + std::to_string(port) + "/" + database;
}

PostgresServer::PostgresServer(PostgresServerOptions options)
    : PostgresServer(FreePort{}, std::move(options)) {}

PostgresServer::PostgresServer(FreePort port, PostgresServerOptions options)
    : PostgresEndpoint(uri_through(port.number())),
      port_(std::move(port)),
      options_(std::move(options)) {
  if (const auto user = unprivileged_user()) {
    if (::chown(dir_.path().c_str(), user->uid, user->gid) != 0) {
      throw std::system_error(errno, std::generic_category(), "chown");
    }
  }
  initialise();
  start();
}

PostgresServer::~PostgresServer() {
  try {
    if (process_ && process_->running()) {
      resume();
      process_->kill(SIGQUIT);  // its immediate shutdown
      if (process_->wait(seconds{10})) return;
    }
    kill();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "PostgreSQL could not be killed: %s\n", error.what());
  }
}

void PostgresServer::make_data() const {
  std::vector<std::string> argv{(bindir() / "initdb").string(),
                                "--pgdata=" + data_dir().string(),
                                "--auth=trust",
                                "--username=postgres",
                                "--encoding=UTF8",
                                "--no-locale",
                                "--no-sync"};
  if (!options_.standby_of.empty()) {
    argv = {(bindir() / "pg_basebackup").string(),
            "--pgdata=" + data_dir().string(),
            "--dbname=" + options_.standby_of,
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--wal-method=stream",
            "--no-sync"};
  }
  const Finished made = run({
      .argv = argv,
      .working_dir = dir_.path(),
      .run_as = unprivileged_user(),
  });
  if (!made.status.success()) throw std::runtime_error(argv.front() + ": " + made.output);
}

void PostgresServer::initialise() {
  make_data();
  // A standby has a copy of the primary's file; later lines win.
  std::ofstream config(data_dir() / "postgresql.conf", std::ios::app);
  config << "listen_addresses = '127.0.0.1'\n"
         << "port = " << port() << "\n"
         << "unix_socket_directories = '" << socket_dir().string() << "'\n"
         << "max_connections = " << options_.max_connections << "\n"
         << "shared_buffers = 32MB\n"
         // in the data directory, where nothing is left behind after a kill
         << "dynamic_shared_memory_type = mmap\n";
  if (options_.durability == PostgresServerOptions::Durability::off) {
    config << "fsync = off\nfull_page_writes = off\n";
  }
  for (const auto& line : options_.config_lines) config << line << "\n";
}

pid_t PostgresServer::pid() const {
  if (!process_) throw std::logic_error("this PostgreSQL does not run");
  return process_->pid();
}

// Every backend is a child of the server and in a session of its own, so that no signal reaches
// all.
std::vector<pid_t> PostgresServer::backends() const {
  std::vector<pid_t> result;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc{} || end != name.data() + name.size()) continue;
    if (state_of(pid).parent == process_->pid()) result.push_back(pid);
  }
  return result;
}

void PostgresServer::pause() {
  if (!process_) throw std::logic_error("this PostgreSQL does not run");
  process_->pause();              // first: it starts no further backends
  paused_backends_ = backends();  // also those that were paused by themselves
  for (const pid_t backend : paused_backends_) ::kill(backend, SIGSTOP);
  for (const pid_t backend : paused_backends_) {
    wait_until("stopping a backend", [backend] {
      const char state = state_of(backend).state;
      return state == 'T' || state == 'Z' || state == 'X';
    });
  }
}

bool PostgresServer::pause_backend(pid_t pid) {
  if (!process_ || state_of(pid).parent != process_->pid()) return false;
  ::kill(pid, SIGSTOP);
  paused_backends_.push_back(pid);
  return true;
}

void PostgresServer::resume() {
  for (const pid_t backend : std::exchange(paused_backends_, {})) ::kill(backend, SIGCONT);
  if (process_) process_->resume();
}

void PostgresServer::kill() {
  if (!process_) return;
  if (!process_->running()) {
    process_.reset();
    return;
  }
  pause();
  const std::vector<pid_t> orphans = std::exchange(paused_backends_, {});
  process_.reset();
  for (const pid_t orphan : orphans) ::kill(orphan, SIGKILL);
  for (const pid_t orphan : orphans) {
    wait_until("killing a backend", [orphan] { return !is_alive(orphan); });
  }
  remove_traces();
}

// What a server that was killed leaves behind: its pid file, and a shared memory segment, of which
// a machine has a limited number.
void PostgresServer::remove_traces() const {
  const auto pid_file = data_dir() / "postmaster.pid";
  std::ifstream file(pid_file);
  std::string skipped;
  for (int line = 1; line <= 6; ++line) std::getline(file, skipped);
  unsigned long key = 0;
  int id = 0;
  if (file >> key >> id) ::shmctl(id, IPC_RMID, nullptr);
  std::error_code none;
  fs::remove(pid_file, none);
}

void PostgresServer::stop() {
  if (!process_) return;
  resume();
  process_->kill(SIGINT);
  if (!process_->wait(seconds{30})) {
    throw std::runtime_error("PostgreSQL does not stop: " + log_tail());
  }
  process_.reset();
}

void PostgresServer::start() {
  if (process_) throw std::logic_error("this PostgreSQL runs already");
  process_ = std::make_unique<Process>(ProcessOptions{
      .argv = {(bindir() / "postgres").string(), "-D", data_dir().string()},
      .working_dir = dir_.path(),
      .run_as = unprivileged_user(),
      .out = Output::file(dir_.path() / "log"),
      .err = Output::standard_output(),
  });
  wait_until_ready();
}

void PostgresServer::wait_until_ready() {
  const auto deadline = steady_clock::now() + seconds{60};
  while (process_->running() && steady_clock::now() < deadline) {
    // What pg_ctl looks at: the first line is the server's process, the eighth its state.
    std::ifstream file(data_dir() / "postmaster.pid");
    std::string first;
    std::string eighth;
    std::getline(file, first);
    for (int line = 2; line <= 8; ++line) std::getline(file, eighth);
    if (first == std::to_string(pid()) &&
        (eighth.starts_with("ready") || eighth.starts_with("standby")))
      return;
    std::this_thread::sleep_for(milliseconds{5});
  }
  process_.reset();
  throw std::runtime_error("PostgreSQL does not start: " + log_tail());
}

void PostgresServer::restart(Data data) {
  if (data == Data::kept) {
    stop();
  } else {
    kill();
    fs::remove_all(data_dir());
    initialise();
  }
  start();
}

std::string PostgresServer::log_tail() const { return file_tail(dir_.path() / "log"); }

}  // namespace leasehold::harness
