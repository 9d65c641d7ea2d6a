#include "redis_replication.hpp"

#include <stdexcept>

namespace leasehold::harness {

RedisServerOptions replicated(const RedisServerOptions& options, std::vector<std::string> lines) {
  RedisServerOptions result = options;
  // Replicas are filled at once instead of after 5 s, and hear from their primary every second: a
  // cluster counts those that have not heard anything as not there.
  lines.insert(lines.end(), {"repl-diskless-sync yes", "repl-diskless-sync-delay 0",
                             "repl-ping-replica-period 1"});
  // A replica that is killed must not start with what it was once filled with.
  lines.emplace_back("rdb-del-sync-files yes");
  if (!options.password.empty()) lines.push_back("masterauth " + options.password);
  result.config_lines.insert(result.config_lines.begin(), lines.begin(), lines.end());
  return result;
}

std::string missing_replication(const RedisServer& replica, const RedisServer& primary) {
  const std::string name = "the server at port " + std::to_string(replica.port());
  // The role, the primary's host and port, and the state of the connection.
  const auto role = expect_success(replica, {"ROLE"}).elements;
  if (role.at(0).string != "slave") return name + " is no replica";
  if (role.at(2).integer != primary.port()) return name + " is the replica of another";
  if (role.at(3).string != "connected") return name + " as a replica: " + role.at(3).string;
  // The primary lists those that it has sent everything to.
  const auto replicas = expect_success(primary, {"ROLE"}).elements.at(2);
  for (const auto& each : replicas.elements) {
    if (each.elements.at(1).string == std::to_string(replica.port())) return {};
  }
  return name + " is not in sync";
}

RedisReply expect_success(const RedisEndpoint& redis, const std::vector<std::string>& words) {
  RedisReply reply = redis.command(words);
  if (!reply.is_error()) return reply;
  std::string text;
  // Not all the words: there can be thousands.
  for (std::size_t i = 0; i < words.size() && i < 3; ++i) text += words[i] + " ";
  throw std::runtime_error(text + "at port " + std::to_string(redis.port()) + ": " + reply.string);
}

std::string hosts_of(const std::vector<const RedisEndpoint*>& endpoints) {
  std::string hosts;
  for (const RedisEndpoint* each : endpoints) {
    if (!hosts.empty()) hosts += ",";
    hosts += each->address().host + ":" + std::to_string(each->port());
  }
  return hosts;
}

std::string info_field(const RedisReply& info, std::string_view name) {
  const std::string start = "\n" + std::string(name) + ":";
  const std::string text = "\n" + info.string;
  const std::size_t found = text.find(start);
  if (found == std::string::npos) throw std::runtime_error("no " + std::string(name) + " in INFO");
  const std::size_t value = found + start.size();
  return text.substr(value, text.find_first_of("\r\n", value) - value);
}

}  // namespace leasehold::harness
