#include "redis_sentinels.hpp"

#include <array>
#include <map>
#include <random>
#include <stdexcept>
#include <utility>

#include "await.hpp"
#include "redis_replication.hpp"

namespace leasehold::harness {
namespace {

using Fields = std::map<std::string, std::string>;

// Sentinel describes things as lists of names and values.
Fields fields_of(const RedisReply& reply) {
  Fields fields;
  for (std::size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
    fields[reply.elements[i].string] = reply.elements[i + 1].string;
  }
  return fields;
}

std::string random_id() {
  std::random_device random;
  std::uniform_int_distribution<std::size_t> digit{0, 15};
  std::string id;
  while (id.size() < 40) id += "0123456789abcdef"[digit(random)];
  return id;
}

bool is_in_tilt(const RedisSentinel& sentinel) {
  return info_field(expect_success(sentinel, {"INFO", "sentinel"}), "sentinel_tilt") != "0";
}

}  // namespace

RedisSentinel::RedisSentinel(FreePort port, const Options& options)
    : RedisProcess(std::move(port), Mode::sentinel, options.password) {
  configure(options.config_lines);
  RedisProcess::start();
}

RedisSentinels::RedisSentinels(const RedisSentinelsOptions& options)
    : RedisSentinels(start_servers(options.servers), options) {}

RedisSentinels::RedisSentinels(Servers servers, const RedisSentinelsOptions& options)
    : RedisEndpoint(servers.front()->address()), options_(options), servers_(std::move(servers)) {
  // First: sentinels ask replicas only every 10 s whether they are in sync.
  await("replication", [this] {
    return missing_replication(server(1), server(0)) + missing_replication(server(2), server(0));
  });
  start_sentinels();
  await_ready();
}

RedisSentinels::~RedisSentinels() = default;

RedisSentinels::Servers RedisSentinels::start_servers(const RedisServerOptions& options) {
  Servers servers;
  servers.push_back(std::make_unique<RedisServer>(replicated(options, {})));
  const std::string primary = "127.0.0.1 " + std::to_string(servers.front()->port());
  while (servers.size() < server_count) {
    servers.push_back(std::make_unique<RedisServer>(replicated(options, {"replicaof " + primary})));
  }
  return servers;
}

void RedisSentinels::start_sentinels() {
  std::array<FreePort, sentinel_count> ports;
  std::array<std::string, sentinel_count> ids;
  for (auto& id : ids) id = random_id();

  const std::string service = " " + options_.service + " ";
  std::vector<std::string> common = {
      "sentinel monitor" + service + "127.0.0.1 " + std::to_string(port()) + " 2",
      "sentinel down-after-milliseconds" + service + std::to_string(options_.down_after.count()),
      "sentinel failover-timeout" + service + std::to_string(options_.failover_timeout.count()),
      "sentinel parallel-syncs" + service + "2",
  };
  if (!options_.servers.password.empty()) {
    common.push_back("sentinel auth-pass" + service + options_.servers.password);
  }
  // What sentinels tell each other within a few seconds, and write here themselves.
  for (int i = 1; i < server_count; ++i) {
    common.push_back("sentinel known-replica" + service + "127.0.0.1 " +
                     std::to_string(server(i).port()));
  }
  std::array<std::vector<std::string>, sentinel_count> lines;
  for (std::size_t i = 0; i < sentinel_count; ++i) {
    lines.at(i) = {"sentinel myid " + ids.at(i)};
    lines.at(i).insert(lines.at(i).end(), common.begin(), common.end());
    for (std::size_t other = 0; other < sentinel_count; ++other) {
      if (other == i) continue;
      lines.at(i).push_back("sentinel known-sentinel" + service + "127.0.0.1 " +
                            std::to_string(ports.at(other).number()) + " " + ids.at(other));
    }
  }
  for (std::size_t i = 0; i < sentinel_count; ++i) {
    sentinels_.push_back(std::make_unique<RedisSentinel>(
        std::move(ports.at(i)), RedisSentinel::Options{.password = options_.sentinel_password,
                                                       .config_lines = std::move(lines.at(i))}));
  }
}

std::string RedisSentinels::uri() const {
  std::string uri = "redis+sentinel://";
  if (!options_.servers.password.empty()) uri += ":" + options_.servers.password + "@";
  uri += hosts_of({&sentinel(0), &sentinel(1), &sentinel(2)}) + "/" + options_.service;
  if (!options_.sentinel_password.empty()) {
    uri += "?sentinel_password=" + options_.sentinel_password;
  }
  return uri;
}

RedisReply RedisSentinels::command(const std::vector<std::string>& words) const {
  return primary().command(words);
}

RedisServer& RedisSentinels::server_at(const std::string& port) const {
  for (const auto& each : servers_) {
    if (std::to_string(each->port()) == port) return *each;
  }
  throw std::runtime_error("a sentinel names a server at port " + port + ", which is none of ours");
}

RedisServer& RedisSentinels::primary() const {
  RedisServer* newest = nullptr;
  unsigned long long newest_epoch = 0;
  std::string failures;
  for (const auto& each : sentinels_) {
    if (!each->is_up()) continue;
    try {
      // The address counts from the moment that a replica is promoted. That of SENTINEL MASTER
      // stays until the failover has ended.
      auto fields = fields_of(expect_success(*each, {"SENTINEL", "MASTER", options_.service}));
      const auto address =
          expect_success(*each, {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", options_.service});
      const auto epoch = std::stoull(fields["config-epoch"]);
      if (newest != nullptr && epoch <= newest_epoch) continue;
      newest = &server_at(address.elements.at(1).string);
      newest_epoch = epoch;
    } catch (const std::exception& error) {
      failures += std::string{"; "} + error.what();
    }
  }
  if (newest == nullptr) throw std::runtime_error("no sentinel names a primary" + failures);
  return *newest;
}

void RedisSentinels::fail_over() {
  for (const auto& each : sentinels_) {
    if (!each->is_up() || is_in_tilt(*each)) continue;
    expect_success(*each, {"SENTINEL", "FAILOVER", options_.service});
    return;
  }
  throw std::runtime_error("there is no sentinel that can start a failover");
}

RedisServer& RedisSentinels::await_primary_other_than(int port) {
  RedisServer* result = nullptr;
  await("another primary than at port " + std::to_string(port), [&]() -> std::string {
    result = nullptr;
    for (const auto& each : sentinels_) {
      if (!each->is_up()) continue;
      auto fields = fields_of(expect_success(*each, {"SENTINEL", "MASTER", options_.service}));
      // Neither down nor in a failover.
      if (fields["flags"] != "master") return "the primary's state is " + fields["flags"];
      RedisServer& named = server_at(fields["port"]);
      if (named.port() == port) return "a sentinel names that one";
      if (result != nullptr && result != &named) return "sentinels disagree";
      result = &named;
    }
    if (result == nullptr) return "no sentinel is up";
    const auto role = expect_success(*result, {"ROLE"});
    return role.elements.at(0).string == "master" ? "" : "the one that is named is no primary";
  });
  return *result;
}

void RedisSentinels::await_ready() {
  await("servers and sentinels are ready", [this] {
    std::string missing = missing_in_servers();
    for (int i = 0; i < sentinel_count && missing.empty(); ++i) missing = missing_in(sentinel(i));
    return missing;
  });
}

std::string RedisSentinels::missing_in_servers() const {
  const RedisServer& primary = this->primary();
  for (const auto& each : servers_) {
    if (!each->is_up()) return "the server at port " + std::to_string(each->port()) + " is down";
    if (each.get() == &primary) continue;
    if (auto missing = missing_replication(*each, primary); !missing.empty()) return missing;
  }
  return {};
}

std::string RedisSentinels::missing_in(const RedisSentinel& sentinel) const {
  const std::string name = "the sentinel at port " + std::to_string(sentinel.port());
  if (!sentinel.is_up()) return name + " is down";
  if (is_in_tilt(sentinel)) return name + " is in TILT";
  const auto ask = [&](const std::string& about) {
    return expect_success(sentinel, {"SENTINEL", about, options_.service});
  };
  auto master = fields_of(ask("MASTER"));
  if (&server_at(master["port"]) != &primary()) return name + " names a former primary";
  if (master["flags"] != "master") return name + " sees the primary as " + master["flags"];
  if (master["num-slaves"] != "2") return name + " knows " + master["num-slaves"] + " replicas";
  if (master["num-other-sentinels"] != "2") {
    return name + " knows " + master["num-other-sentinels"] + " others";
  }
  for (const auto& each : ask("REPLICAS").elements) {
    auto replica = fields_of(each);
    // A replica that is not in sync would not be promoted.
    if (replica["flags"] != "slave" || replica["master-link-status"] != "ok") {
      return name + " sees a replica as " + replica["flags"] + ", its connection as " +
             replica["master-link-status"];
    }
  }
  for (const auto& each : ask("SENTINELS").elements) {
    auto other = fields_of(each);
    if (other["flags"] != "sentinel") return name + " sees another as " + other["flags"];
  }
  return {};
}

}  // namespace leasehold::harness
