#include "postgres_tools.hpp"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <leasehold/migrate.hpp>
#include <stdexcept>
#include <thread>

namespace leasehold::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
namespace fs = std::filesystem;

constexpr std::chrono::minutes longest_statement{30};  // filling in ten million rows takes long

std::string sql_file(const std::string& file) {
  return (fs::path(LEASEHOLD_BENCH_SQL) / file).string();
}

/// Debian keeps it out of PATH, beside the server.
std::string find_pgbench() {
  const auto asked = harness::run({.argv = {"pg_config", "--bindir"}});
  const fs::path path = fs::path(asked.output.substr(0, asked.output.find('\n'))) / "pgbench";
  return fs::exists(path) ? path.string() : "pgbench";
}

std::vector<std::string> psql_command(const std::string& uri) {
  return {"psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", uri};
}

/// The number that follows `label`.
double number_after(const std::string& label, const std::string& text) {
  const auto at = text.rfind(label);
  if (at == std::string::npos) {
    throw std::runtime_error("'" + label + "' expected in: " + text);
  }
  return std::stod(text.substr(at + label.size()));
}

}  // namespace

harness::PostgresServerOptions server_options(int max_connections) {
  return {.durability = harness::PostgresServerOptions::Durability::on,
          .max_connections = max_connections,
          .config_lines = {"shared_buffers = 1GB", "max_wal_size = 16GB",
                           "checkpoint_timeout = 60min", "wal_buffers = 64MB"}};
}

std::string server_settings() {
  std::string text = "fsync = on, synchronous_commit = on, full_page_writes = on";
  for (const auto& line : server_options().config_lines) text += ", " + line;
  return text;
}

BenchDatabase::BenchDatabase(harness::PostgresServer& server, Commits commits)
    : server_(server), name_(server.create_fresh_database()) {
  if (commits == Commits::do_not_wait) run("asynchronous.sql", {{"database", name_}});
  migrate(uri());
  run("raw_table.sql");
}

BenchDatabase::~BenchDatabase() {
  try {
    server_.drop_database(name_);
  } catch (const std::exception& error) {
    std::cerr << "database not dropped: " << error.what() << "\n";
  }
}

void BenchDatabase::add_schema(const std::string& schema) const {
  migrate(uri(), {.schema = schema});
}

std::string BenchDatabase::run(const std::string& file, const Variables& variables) const {
  auto command = psql_command(uri());
  for (const auto& [name, value] : variables) {
    command.insert(command.end(), {"-v", name + "=" + value});
  }
  command.insert(command.end(), {"-f", sql_file(file)});
  const auto psql = harness::run({.argv = command, .working_dir = dir_.path()}, longest_statement);
  if (!psql.status.success()) throw std::runtime_error("psql: " + psql.output);
  return psql.output;
}

double BenchDatabase::seconds_of(const std::string& file, const Variables& variables) const {
  return number_after("Time: ", run(file, variables)) / 1000;
}

void BenchDatabase::fill(const std::string& schema, std::size_t rows, std::size_t types) const {
  run("fill.sql",
      {{"schema", schema}, {"rows", std::to_string(rows)}, {"types", std::to_string(types)}});
}

double BenchDatabase::wal_bytes() const { return std::stod(run("wal_position.sql")); }

Work BenchDatabase::pgbench(const Script& script, milliseconds time) const {
  const auto threads =
      std::min<std::size_t>(script.clients, std::max(1U, std::thread::hardware_concurrency()));
  const auto output = run_pgbench(
      script.file, time, {"-c", std::to_string(script.clients), "-j", std::to_string(threads)});
  const double runs = number_after("transactions actually processed: ", output);
  const double rate = number_after("tps = ", output);
  return {runs * static_cast<double>(script.tasks), runs / rate};
}

std::vector<double> BenchDatabase::latencies_us(const std::string& file, int per_second,
                                                milliseconds time) const {
  run_pgbench(file, time, {"-R", std::to_string(per_second), "--log", "--log-prefix=" + file});
  std::vector<double> latencies;
  for (const auto& entry : fs::directory_iterator(dir_.path())) {
    if (!entry.path().filename().string().starts_with(file + ".")) continue;
    std::ifstream log(entry.path());
    // The time counts from when the run was planned; `lag` is how much later it began.
    for (double client, number, took, script, second, microsecond, lag;
         log >> client >> number >> took >> script >> second >> microsecond >> lag;) {
      latencies.push_back(took - lag);
    }
    fs::remove(entry.path());
  }
  if (latencies.empty()) throw std::runtime_error("pgbench: no log");
  std::sort(latencies.begin(), latencies.end());
  return latencies;
}

std::string BenchDatabase::run_pgbench(const std::string& file, milliseconds time,
                                       const std::vector<std::string>& options) const {
  static const std::string program = find_pgbench();
  const auto whole = std::max(std::chrono::round<seconds>(time), seconds{1});
  std::vector<std::string> command{program, "-n",           "-M", "prepared",
                                   "-f",    sql_file(file), "-T", std::to_string(whole.count())};
  command.insert(command.end(), options.begin(), options.end());
  command.push_back(uri());
  const auto done = harness::run({.argv = command, .working_dir = dir_.path()}, longest_statement);
  if (!done.status.success()) throw std::runtime_error("pgbench: " + done.output);
  return done.output;
}

BenchDatabase::HeldSnapshot::HeldSnapshot(const BenchDatabase& database)
    : psql_(psql_command(database.uri())) {
  psql_.write_line("\\i '" + sql_file("hold_snapshot.sql") + "'");
  const auto answer = psql_.read_line();
  if (!answer || !answer->starts_with("holds ")) throw std::runtime_error("no snapshot is held");
}

BenchDatabase::HeldSnapshot::~HeldSnapshot() {
  psql_.close_input();  // psql exits, and its transaction ends
  psql_.wait(seconds{10});
}

}  // namespace leasehold::bench
