#include "peers/driver.hpp"

#include <stdexcept>

namespace leasehold::bench {
namespace {

harness::ProcessOptions start_of(const System& system, const std::string& role,
                                 const nlohmann::json& options) {
  harness::ProcessOptions process;
  process.argv = system.command;
  process.argv.push_back(role);
  process.argv.push_back(options.dump());
  process.env = {{"NODE_ENV", "production"}};
  if (!system.packages.empty()) process.env["NODE_PATH"] = system.packages.string();
  return process;
}

}  // namespace

double monotonic_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Driver::Driver(const System& system, const std::string& role, const nlohmann::json& options)
    : who_(system.name + " " + role), process_(start_of(system, role, options)) {}

nlohmann::json Driver::read(std::chrono::milliseconds timeout) {
  auto line = poll(timeout);
  if (!line) throw std::runtime_error(who_ + " said nothing in time");
  return *line;
}

std::optional<nlohmann::json> Driver::poll(std::chrono::milliseconds timeout) {
  if (const auto line = process_.read_line(timeout)) return nlohmann::json::parse(*line);
  if (!process_.running()) throw std::runtime_error(who_ + " has ended");
  return std::nullopt;
}

std::vector<nlohmann::json> Driver::read_rest() {
  std::vector<nlohmann::json> lines;
  while (const auto line = process_.read_line(std::chrono::seconds{30})) {
    lines.push_back(nlohmann::json::parse(*line));
  }
  return lines;
}

void Driver::go() { process_.write_line("go"); }

void Driver::kill() { process_.kill(); }

}  // namespace leasehold::bench
