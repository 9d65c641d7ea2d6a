#include "tests/history/failover_storm.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "harness/process.hpp"
#include "harness/redis_cluster.hpp"
#include "harness/redis_sentinels.hpp"
#include "leasehold/locks.hpp"
#include "tests/history/history.hpp"
#include "tests/history/history_checker.hpp"
#include "tests/history/history_report.hpp"
#include "tests/support/lock_clients.hpp"
#include "tests/support/redis_keys.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// So many that some are granted in the last moments of a primary and then held for long.
constexpr std::size_t lock_count = 24;
constexpr const char* threads_of_one = "2";
constexpr seconds time_to_take_over{60};

/// Servers of which one has all the locks, and another takes over when it is killed.
class StormServers {
 public:
  virtual ~StormServers() = default;
  virtual std::string uri() const = 0;
  /// Whether the present primary keeps locks of this name.
  virtual bool has(const std::string& lock) const = 0;
  virtual RedisServer& primary() const = 0;
  virtual std::vector<RedisServer*> replicas() const = 0;
  /// After the kill of `former`.
  virtual void await_takeover(RedisServer& former) = 0;
  virtual void await_ready() = 0;
};

class WithSentinels final : public StormServers {
 public:
  std::string uri() const override { return redis_.uri(); }
  bool has(const std::string&) const override { return true; }
  RedisServer& primary() const override { return redis_.primary(); }
  std::vector<RedisServer*> replicas() const override {
    std::vector<RedisServer*> found;
    for (int i = 0; i < RedisSentinels::server_count; ++i) {
      if (redis_.server(i).port() != primary().port()) found.push_back(&redis_.server(i));
    }
    return found;
  }
  void await_takeover(RedisServer& former) override {
    redis_.await_primary_other_than(former.port());
  }
  void await_ready() override { redis_.await_ready(); }

 private:
  // With 1 s, sentinels of a busy machine replace a new primary before they are connected to it.
  RedisSentinels redis_{{.down_after = seconds{2}}};
};

class InACluster final : public StormServers {
 public:
  std::string uri() const override { return redis_.uri(); }
  bool has(const std::string& lock) const override {
    return redis_.primary_of(key_of(lock)).port() == primary().port();
  }
  // Node 0 and its replica change places with every failover.
  RedisServer& primary() const override { return redis_.primary_of(key_of("plain-0")); }
  std::vector<RedisServer*> replicas() const override { return {&redis_.node(other())}; }
  void await_takeover(RedisServer& former) override { redis_.await_takeover(number_of(former)); }
  void await_ready() override { redis_.await_ready(); }

 private:
  int number_of(const RedisServer& server) const {
    for (int i = 0; i < RedisCluster::node_count; ++i) {
      if (redis_.node(i).port() == server.port()) return i;
    }
    throw std::logic_error("no node of this cluster");
  }
  int other() const {
    return (number_of(primary()) + RedisCluster::primary_count) % RedisCluster::node_count;
  }

  RedisCluster redis_;
};

std::unique_ptr<StormServers> start_servers(StormTopology topology) {
  if (topology == StormTopology::cluster) return std::make_unique<InACluster>();
  return std::make_unique<WithSentinels>();
}

/// The primary is killed. It has lost its replicas `lag` before, so that they lack what it did
/// since.
void kill_primary(RedisServer& primary, const std::vector<RedisServer*>& replicas,
                  milliseconds lag) {
  if (lag > milliseconds{0}) {
    // In this order: a replica that runs would come back at once, and get what it has missed.
    for (RedisServer* replica : replicas) replica->pause();
    primary.command({"CLIENT", "KILL", "TYPE", "replica"});
    std::this_thread::sleep_for(lag);
  }
  primary.kill();
  if (lag > milliseconds{0}) {
    for (RedisServer* replica : replicas) replica->resume();
  }
}

class Storm {
 public:
  explicit Storm(const StormOptions& options)
      : options_(options),
        random_(options.seed),
        recorder_(options.directory, "test"),
        servers_(start_servers(options.topology)) {
    for (int i = 0; locks_.size() <= lock_count; ++i) {
      // Nobody changes the mode of a lock with this name.
      const std::string name = "plain-" + std::to_string(i);
      if (servers_->has(name)) locks_.push_back(name);
    }
    probe_ = locks_.back();
    locks_.pop_back();
  }

  FailoverReport run() {
    start_processes();
    LockClientOptions as_usual = as_new_runner();
    as_usual.redis = {};
    LockClient client{servers_->uri(), as_usual};
    for (int i = 0; i < options_.failovers; ++i) {
      client.acquire(probe_, {.wait = time_to_take_over}).value().release();
      // Until locks are held for long, and then not always at the same moment.
      std::this_thread::sleep_for(milliseconds{1'500 + random_() % 1'000});
      RedisServer& former = servers_->primary();
      report_.outages.push_back(fail_over(former, client));
      std::ostringstream text;
      text << "failover " << i + 1 << ": locks work again after " << report_.outages.back().count()
           << " ms";
      options_.progress(text.str());
      if (i + 1 == options_.failovers) break;
      former.start();
      servers_->await_ready();
    }
    finish_processes();
    check();
    return std::move(report_);
  }

 private:
  milliseconds fail_over(RedisServer& former, LockClient& client) {
    const auto replicas = servers_->replicas();
    record(Phase::invoke, history_now());
    kill_primary(former, replicas, options_.lag);
    const auto killed = steady_clock::now();
    client.acquire(probe_, {.wait = time_to_take_over}).value().release();
    const auto outage = std::chrono::round<milliseconds>(steady_clock::now() - killed);
    servers_->await_takeover(former);
    const auto taken_over = history_now();
    const int next = servers_->primary().port();
    // So that those who have lost a lock without knowing it meet the next holder.
    std::this_thread::sleep_for(seconds{3});
    const bool replaced = servers_->primary().port() != next;
    if (replaced) ++report_.unasked_failovers;
    record(Phase::ok, replaced ? history_now() : taken_over);
    return outage;
  }

  void record(Phase phase, std::int64_t time) const {
    Event event;
    event.time = time;
    event.op = Op::data_loss;
    event.grant = event.lock = "-";
    event.phase = phase;
    event.reason = "failover";
    recorder_.record(event);
  }

  void start_processes() {
    for (std::size_t i = 0; i < options_.processes; ++i) {
      std::vector<std::string> argv{LEASEHOLD_TEST_PROGRAMS "/lock_history_program",
                                    servers_->uri(),
                                    options_.directory.string(),
                                    "p" + std::to_string(i),
                                    std::to_string(random_()),
                                    threads_of_one,
                                    to_string(options_.bug),
                                    "hold",
                                    to_string(options_.replicas)};
      argv.insert(argv.end(), locks_.begin(), locks_.end());
      processes_.push_back(std::make_unique<Process>(std::move(argv)));
    }
  }

  void finish_processes() const {
    for (const auto& process : processes_) process->close_input();
    for (const auto& process : processes_) {
      const auto status = process->wait(time_to_take_over);
      if (!status || !status->success()) throw std::runtime_error("a process of the storm failed");
    }
  }

  void check() {
    History history = read_history(options_.directory);
    report_.grants = history.grants();
    const auto not_allowed = check_history(history);
    if (!not_allowed.empty()) report_.violations = explain(not_allowed, history);
    // Once more as if nothing had happened to the data: now all overlaps count.
    std::erase_if(history.events, [](const Event& event) { return event.op == Op::data_loss; });
    const auto counts = count(check_history(history));
    const auto number_of = [&](Rule rule) {
      const auto found = counts.find(rule);
      return found == counts.end() ? 0 : found->second;
    };
    report_.overlaps = number_of(Rule::two_writers);
    report_.tokens_in_disorder = number_of(Rule::token_order);
  }

  const StormOptions& options_;
  std::mt19937_64 random_;
  const Recorder recorder_;
  const std::unique_ptr<StormServers> servers_;
  std::vector<std::string> locks_;
  std::string probe_;  // a lock that only this process takes
  std::vector<std::unique_ptr<Process>> processes_;
  FailoverReport report_;
};

}  // namespace

const char* to_string(StormTopology topology) {
  return topology == StormTopology::cluster ? "cluster" : "sentinel";
}

const char* to_string(RedisReplicas::Needed needed) {
  switch (needed) {
    case RedisReplicas::Needed::any:
      return "any";
    case RedisReplicas::Needed::majority:
      return "majority";
    case RedisReplicas::Needed::all:
      return "all";
    default:
      return "none";
  }
}

StormTopology storm_topology(std::string_view name) {
  for (const auto each : {StormTopology::sentinel, StormTopology::cluster}) {
    if (name == to_string(each)) return each;
  }
  throw std::invalid_argument("the topology must be sentinel or cluster, got '" +
                              std::string(name) + "'");
}

RedisReplicas::Needed replicas_needed(std::string_view name) {
  using enum RedisReplicas::Needed;
  for (const auto each : {none, any, majority, all}) {
    if (name == to_string(each)) return each;
  }
  throw std::invalid_argument("replicas must be none, any, majority or all, got '" +
                              std::string(name) + "'");
}

milliseconds FailoverReport::median_outage() const {
  auto sorted = outages;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty()) return milliseconds{0};
  return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}

milliseconds FailoverReport::longest_outage() const {
  return outages.empty() ? milliseconds{0} : *std::max_element(outages.begin(), outages.end());
}

FailoverReport run_failover_storm(const StormOptions& options) { return Storm{options}.run(); }

std::string to_row(const StormOptions& options, const FailoverReport& report) {
  std::ostringstream row;
  row << "| " << to_string(options.topology) << " | " << to_string(options.replicas) << " | "
      << options.lag.count() << " ms | " << report.outages.size() << " | " << report.grants << " | "
      << report.overlaps << " | " << report.tokens_in_disorder << " | "
      << report.median_outage().count() << " ms | " << report.longest_outage().count() << " ms |";
  return row.str();
}

}  // namespace leasehold::testing
