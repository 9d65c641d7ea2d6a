#include "lock_cases/server_work.hpp"

#include <sstream>

#include "cpu_time.hpp"

namespace leasehold::bench {
namespace {

double field(const std::string& line, const std::string& name) {
  const auto at = line.find(name + "=");
  return at == std::string::npos ? 0 : std::stod(line.substr(at + name.size() + 1));
}

}  // namespace

ServerWork::ServerWork(const harness::RedisServer& redis)
    : redis_(redis), cpu_seconds_(cpu_seconds(redis.pid())), costs_(read()) {}

std::map<std::string, ServerWork::Cost> ServerWork::read() const {
  const std::string prefix = "cmdstat_";
  std::map<std::string, Cost> costs;
  std::istringstream lines(redis_.command({"INFO", "commandstats"}).string);
  for (std::string line; std::getline(lines, line);) {
    const auto end = line.find(':');
    if (end == std::string::npos || !line.starts_with(prefix)) continue;
    const std::string command = line.substr(prefix.size(), end - prefix.size());
    if (command == "info") continue;  // that is us
    costs[command] = {field(line, "calls"), field(line, "usec")};
  }
  return costs;
}

void ServerWork::stop() {
  cpu_seconds_ = cpu_seconds(redis_.pid()) - cpu_seconds_;
  auto after = read();
  for (auto& [command, cost] : after) {
    const auto before = costs_.find(command);
    if (before == costs_.end()) continue;
    cost.calls -= before->second.calls;
    cost.us -= before->second.us;
  }
  costs_ = std::move(after);
}

double ServerWork::commands() const {
  double all = 0;
  for (const auto& [command, cost] : costs_) all += cost.calls;
  return all;
}

double ServerWork::calls(const std::string& command) const {
  const auto found = costs_.find(command);
  return found == costs_.end() ? 0 : found->second.calls;
}

double ServerWork::us(const std::string& command) const {
  const auto found = costs_.find(command);
  return found == costs_.end() ? 0 : found->second.us;
}

}  // namespace leasehold::bench
