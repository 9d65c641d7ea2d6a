#include <algorithm>
#include <exception>
#include <map>
#include <thread>
#include <utility>

#include "leasehold/errors.hpp"
#include "leasehold/redis_plus_plus.hpp"
#include "redis_plus_plus/conversation.hpp"
#include "redis_plus_plus/subscription.hpp"
#include "support/start_thread.hpp"

namespace leasehold::inline v0 {
namespace redis_plus_plus {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Type = RedisReply::Type;

constexpr int slot_count = 16'384;
constexpr std::chrono::seconds refresh_at_most_every{1};
constexpr int most_tries_while_moving = 20;
constexpr milliseconds pause_while_moving{10};

/// The slot of a key: CRC16 of its hash tag, as the specification of Redis Cluster has it.
int slot_of(std::string_view key) {
  if (const auto open = key.find('{'); open != key.npos) {
    const auto close = key.find('}', open + 1);
    if (close != key.npos && close > open + 1) key = key.substr(open + 1, close - open - 1);
  }
  unsigned crc = 0;
  for (const char c : key) {
    crc ^= static_cast<unsigned>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc & 0x8000U) != 0 ? 0x1021U : 0U);
    crc &= 0xFFFFU;
  }
  return static_cast<int>(crc) % slot_count;
}

bool is_error(const RedisReply& reply, std::string_view code) {
  return reply.type == Type::error && reply.text.starts_with(code);
}

bool is_redirection(const RedisReply& reply) {
  return is_error(reply, "MOVED ") || is_error(reply, "ASK ") || is_error(reply, "TRYAGAIN");
}

/// A primary, and a key that belongs to it.
struct Primary {
  std::string id;
  std::string host;
  int port = 0;
  std::string key;
};

std::string key_between(long long first, long long last) {
  for (int i = 0;; ++i) {
    auto key = std::to_string(i);
    if (const int slot = slot_of(key); first <= slot && slot <= last) return key;
  }
}

/// The reply to CLUSTER SLOTS.
std::vector<Primary> to_primaries(const RedisReply& slots) {
  std::vector<Primary> primaries;
  for (const RedisReply& range : slots.elements) {
    if (range.elements.size() < 3 || range.elements[2].elements.size() < 3) continue;
    const auto& node = range.elements[2].elements;
    const auto same = [&](const Primary& other) { return other.id == node[2].text; };
    if (std::any_of(primaries.begin(), primaries.end(), same)) continue;
    primaries.push_back({.id = node[2].text,
                         .host = node[0].text,
                         .port = static_cast<int>(node[1].integer),
                         .key = key_between(range.elements[0].integer, range.elements[1].integer)});
  }
  return primaries;
}

class ClusterLink final : public RedisLink, public std::enable_shared_from_this<ClusterLink> {
 public:
  explicit ClusterLink(std::shared_ptr<sw::redis::RedisCluster> cluster)
      : cluster_(std::move(cluster)) {}

  std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands,
                                   const RedisCall& call) override;
  std::vector<std::shared_ptr<RedisLink>> primaries() override;
  std::shared_ptr<RedisLink> link_for_renewals() override;
  std::unique_ptr<RedisSubscription> subscribe(std::string channel,
                                               std::function<void(std::string_view)> on_message,
                                               std::function<void()> on_subscribed) override;
  std::string where() const override { return conversation_.where() + " (cluster)"; }

  std::vector<Primary> find_primaries();
  std::optional<sw::redis::ConnectionOptions> options() const { return conversation_.options(); }

  /// Runs all commands on the node that has this key.
  std::vector<RedisReply> run_at(std::string_view key, std::span<const RedisCommand> commands,
                                 std::string* server = nullptr);

 private:
  struct Group {
    std::string_view key;  ///< one of its keys
    std::vector<std::size_t> commands;
  };
  std::vector<Group> group(std::span<const RedisCommand> commands);
  void run_group(const Group& group, std::span<const RedisCommand> commands,
                 std::vector<RedisReply>& replies);
  RedisReply follow(const RedisCommand& command);
  void refresh(std::string_view key);

  const std::shared_ptr<sw::redis::RedisCluster> cluster_;
  Conversation conversation_;
  ThreadMutex mutex_;
  // Where commands for a slot went last. redis-plus-plus knows, but does not tell. If this is
  // wrong, the node answers MOVED.
  std::map<int, std::string> nodes_ LEASEHOLD_GUARDED_BY(mutex_);
  steady_clock::time_point refreshed_ LEASEHOLD_GUARDED_BY(mutex_);
};

/// Those that go to the same node, in their order. Commands without a key are in all groups.
std::vector<ClusterLink::Group> ClusterLink::group(std::span<const RedisCommand> commands) {
  std::map<std::string, Group> groups;
  {
    const ThreadLock lock(mutex_);
    for (const RedisCommand& command : commands) {
      if (command.key.empty()) continue;
      const int slot = slot_of(command.key);
      const auto node = nodes_.find(slot);
      groups.try_emplace(node == nodes_.end() ? std::to_string(slot) : node->second,
                         Group{.key = command.key});
    }
    if (groups.empty()) groups.try_emplace("", Group{.key = "any"});
    for (std::size_t i = 0; i < commands.size(); ++i) {
      if (commands[i].key.empty()) {
        for (auto& [node, its] : groups) its.commands.push_back(i);
        continue;
      }
      const int slot = slot_of(commands[i].key);
      const auto node = nodes_.find(slot);
      groups.at(node == nodes_.end() ? std::to_string(slot) : node->second).commands.push_back(i);
    }
  }
  std::vector<Group> result;
  result.reserve(groups.size());
  for (auto& [node, its] : groups) result.push_back(std::move(its));
  return result;
}

std::vector<RedisReply> ClusterLink::run_at(std::string_view key,
                                            std::span<const RedisCommand> commands,
                                            std::string* server) {
  for (;;) {
    try {
      auto pipeline = cluster_->pipeline(sw::redis::StringView(key.data(), key.size()), false);
      return conversation_.run(pipeline, commands, {}, server);
    } catch (const Outdated&) {
      refresh(key);
    } catch (const sw::redis::Error& error) {  // no node is known for this key
      refresh(key);
      throw Unavailable(where() + ": " + error.what());
    } catch (const Error&) {
      refresh(key);
      throw;
    }
  }
}

void ClusterLink::run_group(const Group& group, std::span<const RedisCommand> commands,
                            std::vector<RedisReply>& replies) {
  std::vector<RedisCommand> own;
  own.reserve(group.commands.size());
  for (const std::size_t i : group.commands) own.push_back(commands[i]);
  std::string server;
  auto answers = run_at(group.key, own, &server);
  for (std::size_t n = 0; n < own.size(); ++n) {
    RedisReply& answer = answers[n];
    if (own[n].key.empty()) {
      RedisReply& before = replies[group.commands[n]];
      if (before.type != Type::error) before = std::move(answer);
      continue;
    }
    const bool moved = is_redirection(answer);
    if (moved) {
      try {
        answer = follow(own[n]);
      } catch (const Unavailable& error) {
        answer = {.type = Type::not_sent, .text = error.what()};
      } catch (const Error& error) {
        answer = {.type = Type::no_reply, .text = error.what()};
      }
    }
    replies[group.commands[n]] = std::move(answer);
    const ThreadLock lock(mutex_);
    if (moved) {
      nodes_.erase(slot_of(own[n].key));
    } else {
      nodes_[slot_of(own[n].key)] = server;
    }
  }
}

/// Runs a command that was not executed because its key is elsewhere. redis-plus-plus follows the
/// redirections, but must not see other failures: it would send the command again.
RedisReply ClusterLink::follow(const RedisCommand& command) {
  struct Answered {};
  RedisReply answer;
  const auto talk = [&](sw::redis::Connection& connection, const sw::redis::StringView&) {
    answer = conversation_.run_one(connection, command);
    if (is_error(answer, "MOVED ")) throw sw::redis::MovedError(answer.text.substr(6));
    if (is_error(answer, "ASK ")) throw sw::redis::AskError(answer.text.substr(4));
    throw Answered{};  // past redis-plus-plus, which would wait for a reply
  };
  for (int attempt = 0;; ++attempt) {
    try {
      cluster_->command(talk, sw::redis::StringView(command.key.data(), command.key.size()));
    } catch (const Answered&) {
      // During a move the keys of a lock are for a moment at two nodes.
      if (!is_error(answer, "TRYAGAIN") || attempt >= most_tries_while_moving) return answer;
      std::this_thread::sleep_for(pause_while_moving);
    } catch (const Outdated&) {
      refresh(command.key);
      if (attempt >= most_tries_while_moving) throw Unavailable(where() + ": no primary");
    } catch (const sw::redis::Error& error) {
      throw Unavailable(where() + ": " + error.what());
    }
  }
}

/// Lets redis-plus-plus ask the nodes where the slots are: it does so when a connection has broken.
void ClusterLink::refresh(std::string_view key) {
  {
    const ThreadLock lock(mutex_);
    const auto now = steady_clock::now();
    if (now - refreshed_ < refresh_at_most_every) return;
    refreshed_ = now;
    nodes_.clear();
  }
  struct Refreshed {};
  bool asked = false;
  try {
    cluster_->command(
        [&](sw::redis::Connection&, const sw::redis::StringView&) {
          if (std::exchange(asked, true)) throw Refreshed{};
          throw sw::redis::ClosedError("look where the slots are");
        },
        sw::redis::StringView(key.data(), key.size()));
  } catch (const Refreshed&) {
  } catch (const sw::redis::Error&) {
    // The next command fails again, and says why.
  }
}

std::vector<RedisReply> ClusterLink::pipeline(std::span<const RedisCommand> commands,
                                              const RedisCall& /*call*/) {
  if (commands.empty()) return {};
  std::vector<RedisReply> replies(commands.size());
  const auto groups = group(commands);
  if (groups.size() == 1) {
    run_group(groups[0], commands, replies);
    return replies;
  }
  bool answered = false;
  std::exception_ptr failure;
  std::exception_ptr unknown;
  const auto fail = [&](const Group& its, Type type, const char* why) {
    for (const std::size_t i : its.commands) {
      if (!commands[i].key.empty()) replies[i] = {.type = type, .text = why};
    }
  };
  for (const Group& its : groups) {
    try {
      run_group(its, commands, replies);
      answered = true;
    } catch (const OutcomeUnknown& error) {
      unknown = std::current_exception();
      fail(its, Type::no_reply, error.what());
    } catch (const InvalidArgument&) {
      throw;
    } catch (const Error& error) {
      failure = std::current_exception();
      fail(its, Type::not_sent, error.what());
    }
  }
  if (!answered && unknown) std::rethrow_exception(unknown);
  if (!answered) std::rethrow_exception(failure);
  return replies;
}

std::vector<Primary> ClusterLink::find_primaries() {
  const std::array<std::string_view, 2> words{"CLUSTER", "SLOTS"};
  const RedisCommand command{words};
  const RedisReply slots = std::move(run_at("any", {&command, 1}).front());
  if (slots.type == Type::error) throw explain_redis_error(slots.text, where());
  return to_primaries(slots);
}

/// One node of a cluster: for SCAN.
class NodeLink final : public RedisLink {
 public:
  NodeLink(std::shared_ptr<ClusterLink> cluster, Primary node)
      : cluster_(std::move(cluster)), node_(std::move(node)) {}

  std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands,
                                   const RedisCall& /*call*/) override {
    const std::array<std::string_view, 2> words{"CLUSTER", "MYID"};
    std::vector<RedisCommand> all{RedisCommand{words}};
    all.insert(all.end(), commands.begin(), commands.end());
    auto replies = cluster_->run_at(node_.key, all);
    if (replies.front().text != node_.id) {
      throw Unavailable(where() + ": another node has taken over its keys");
    }
    replies.erase(replies.begin());
    return replies;
  }

  std::string where() const override {
    return "redis++ " + node_.host + ":" + std::to_string(node_.port);
  }

 private:
  const std::shared_ptr<ClusterLink> cluster_;
  const Primary node_;
};

std::vector<std::shared_ptr<RedisLink>> ClusterLink::primaries() {
  std::vector<std::shared_ptr<RedisLink>> links;
  for (Primary& primary : find_primaries()) {
    links.push_back(std::make_shared<NodeLink>(shared_from_this(), std::move(primary)));
  }
  return links;
}

std::shared_ptr<RedisLink> ClusterLink::link_for_renewals() {
  const auto options = conversation_.options();
  if (!options) return nullptr;
  try {
    sw::redis::ConnectionPoolOptions pool;
    pool.size = 1;
    pool.wait_timeout = options->socket_timeout;
    return std::make_shared<ClusterLink>(std::make_shared<sw::redis::RedisCluster>(*options, pool));
  } catch (const sw::redis::Error&) {
    return nullptr;
  }
}

/// Listens at every primary. A script that publishes is told only of the listeners at its own node.
/// What one node publishes is heard from all of them.
class ClusterSubscription final : public RedisSubscription {
 public:
  ClusterSubscription(std::shared_ptr<ClusterLink> cluster, std::string channel,
                      std::function<void(std::string_view)> on_message,
                      std::function<void()> on_subscribed)
      : cluster_(std::move(cluster)),
        channel_(std::move(channel)),
        on_message_(std::move(on_message)),
        on_subscribed_(std::move(on_subscribed)),
        thread_(start_thread("that follows the cluster",
                             [this](const std::stop_token& stop) { run(stop); })) {}

  ~ClusterSubscription() override {
    thread_.request_stop();
    thread_.join();
  }

 private:
  void run(const std::stop_token& stop) {
    std::map<std::string, std::unique_ptr<Subscription>> at;
    while (!stop.stop_requested()) {
      try {
        follow(at);
      } catch (const Error&) {
        // Callers of commands get the error.
      }
      ThreadLock lock(pausing_);
      pause_.wait_for(lock, stop, std::chrono::seconds{1}, [] { return false; });
    }
  }

  void follow(std::map<std::string, std::unique_ptr<Subscription>>& at) {
    const auto primaries = cluster_->find_primaries();
    const auto options = cluster_->options();
    if (!options) return;
    std::map<std::string, std::unique_ptr<Subscription>> now;
    for (const Primary& primary : primaries) {
      auto node = *options;
      if (!primary.host.empty()) node.host = primary.host;
      node.port = primary.port;
      auto& subscription = now[address_of(node)];
      if (auto known = at.extract(address_of(node))) {
        subscription = std::move(known.mapped());
        continue;
      }
      subscription =
          std::make_unique<Subscription>([node] { return std::optional(node); }, channel_,
                                         [this](std::string_view text) {
                                           const ThreadLock lock(calling_);
                                           on_message_(text);
                                         },
                                         [this] {
                                           const ThreadLock lock(calling_);
                                           on_subscribed_();
                                         });
    }
    at = std::move(now);
  }

  const std::shared_ptr<ClusterLink> cluster_;
  const std::string channel_;
  const std::function<void(std::string_view)> on_message_;
  const std::function<void()> on_subscribed_;
  ThreadMutex calling_;
  ThreadMutex pausing_;
  StoppableCondition pause_;
  std::jthread thread_;
};

std::unique_ptr<RedisSubscription> ClusterLink::subscribe(
    std::string channel, std::function<void(std::string_view)> on_message,
    std::function<void()> on_subscribed) {
  return std::make_unique<ClusterSubscription>(shared_from_this(), std::move(channel),
                                               std::move(on_message), std::move(on_subscribed));
}

}  // namespace
}  // namespace redis_plus_plus

std::shared_ptr<RedisLink> lend_redis(std::shared_ptr<sw::redis::RedisCluster> redis) {
  if (!redis) throw InvalidArgument("lend_redis: the RedisCluster is null");
  auto link = std::make_shared<redis_plus_plus::ClusterLink>(std::move(redis));
  redis_plus_plus::try_to_connect(*link);
  return link;
}

}  // namespace leasehold::inline v0
