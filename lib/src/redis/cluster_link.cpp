#include "redis/cluster_link.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "redis/cluster_subscription.hpp"
#include "redis/redis_errors.hpp"
#include "support/destroy.hpp"
#include "support/sleep.hpp"
#include "support/start_thread.hpp"

namespace leasehold::inline v0::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A call that has failed after this time has waited in vain. One that failed sooner was refused, or
// its connection was cut: that costs nobody any time.
constexpr milliseconds in_vain{200};

constexpr milliseconds pause_between_pings{100};

// While a slot moves to another node: see Redirection::try_again.
constexpr milliseconds pause_before_next_try{5};

constexpr std::size_t no_command = static_cast<std::size_t>(-1);

}  // namespace

/// One node.
class ClusterLink::Node {
 public:
  Node(Cluster& cluster, const Address& address, ClusterAccess::Use use)
      : cluster_(cluster), host_(address.host), link_(cluster.access().connect(address, use)) {}

  const std::string& host() const noexcept { return host_; }
  bool silent() const noexcept { return silent_.load(); }
  const std::shared_ptr<RedisLink>& link() const noexcept { return link_; }

  /// Nobody needs it any more. It can be destroyed without a wait once it is not silent.
  void retire() {
    const ThreadLock lock(mutex_);
    retired_ = true;
    pinger_.request_stop();
  }

  /// As RedisLink::pipeline().
  std::vector<RedisReply> run(std::span<const RedisCommand> commands, const RedisCall& call) {
    if (silent_.load()) {
      cluster_.suspect();
      throw Unavailable(link_->where() + ": this node of the cluster does not answer");
    }
    const auto begin = steady_clock::now();
    try {
      return link_->pipeline(commands, call);
    } catch (const Error&) {
      cluster_.suspect();
      if (steady_clock::now() - begin > in_vain) wait_for_it();
      throw;
    }
  }

 private:
  void wait_for_it() {
    const ThreadLock lock(mutex_);
    if (retired_ || silent_.exchange(true)) return;
    try {
      pinger_ = start_thread("that waits for a node of the cluster",
                             [this](const std::stop_token& stop) { ping(stop); });
    } catch (const Unavailable&) {
      silent_ = false;  // each call has to find out by itself
    }
  }

  void ping(const std::stop_token& stop) {
    const std::array<std::string_view, 1> words{"PING"};
    const RedisCommand command{words};
    while (!stop.stop_requested()) {
      try {
        link_->pipeline({&command, 1}, {});
        break;
      } catch (const Error&) {
        cluster_.suspect();
      }
      sleep_for(pause_between_pings, stop);
    }
    silent_ = false;
  }

  Cluster& cluster_;
  const std::string host_;
  const std::shared_ptr<RedisLink> link_;
  std::atomic<bool> silent_{false};
  ThreadMutex mutex_;
  bool retired_ LEASEHOLD_GUARDED_BY(mutex_) = false;
  std::jthread pinger_ LEASEHOLD_GUARDED_BY(mutex_);  // destroyed first
};

/// What one node has to do for a pipeline.
struct ClusterLink::Part {
  std::shared_ptr<Node> node;
  bool asking = false;               ///< it does not own the slots yet
  std::vector<std::size_t> which{};  ///< of the commands; no_command for an ASKING of ours
  std::vector<RedisCommand> commands{};
  std::vector<RedisReply> replies{};
  std::exception_ptr failure{};
};

/// One call of pipeline(): cuts it into parts, and follows redirections until there are none or the
/// time is over.
class ClusterLink::Run {
 public:
  Run(ClusterLink& link, std::span<const RedisCommand> commands, const RedisCall& call)
      : link_(link),
        commands_(commands),
        call_(call),
        deadline_(steady_clock::now() +
                  call.timeout.value_or(link.cluster_->access().command_timeout)),
        replies_(commands.size()) {}

  std::vector<RedisReply> run() {
    std::vector<std::size_t> with_key;
    for (std::size_t i = 0; i < commands_.size(); ++i) {
      (commands_[i].key.empty() ? without_key_ : with_key).push_back(i);
    }
    distribute(with_key);
    if (with_key.empty()) part_for(link_.any_node(), false);
    for (int round = 1; !parts_.empty(); ++round) {
      execute();
      if (round == 1) throw_if_all_failed();
      follow(collect(), round);
    }
    return std::move(replies_);
  }

 private:
  struct Redirected {
    std::size_t command;
    Redirection to;
  };

  void distribute(std::span<const std::size_t> which) {
    const auto slots = link_.cluster_->slots();
    for (const std::size_t i : which) {
      if (const Address* owner = slots->owner_of(slot_of(commands_[i].key))) {
        add(part_for(link_.node_at(*owner), false), i);
      } else {
        set_error(i, "CLUSTERDOWN no node has the slot of this key");
        link_.cluster_->suspect();
      }
    }
  }

  Part& part_for(const std::shared_ptr<Node>& node, bool asking) {
    for (Part& part : parts_) {
      if (part.node == node && part.asking == asking) return part;
    }
    Part& part = parts_.emplace_back();
    part.node = node;
    part.asking = asking;
    for (const std::size_t i : without_key_) add(part, i);
    return part;
  }

  void add(Part& part, std::size_t command) {
    if (part.asking && !commands_[command].key.empty()) {
      part.which.push_back(no_command);
      part.commands.emplace_back(asking_words);
    }
    part.which.push_back(command);
    part.commands.push_back(commands_[command]);
  }

  /// On a thread for each node, so that one that is slow does not delay the others.
  void execute() {
    std::vector<std::jthread> threads;
    threads.reserve(parts_.size());
    for (std::size_t i = 1; i < parts_.size(); ++i) {
      try {
        threads.push_back(start_thread("for a node of the cluster",
                                       [this, &part = parts_[i]] { execute(part); }));
      } catch (const Unavailable&) {
        execute(parts_[i]);
      }
    }
    execute(parts_[0]);
  }

  void execute(Part& part) const {
    RedisCall call = call_;
    call.timeout =
        std::max(milliseconds{1}, std::chrono::ceil<milliseconds>(deadline_ - steady_clock::now()));
    try {
      part.replies = part.node->run(part.commands, call);
    } catch (...) {
      part.failure = std::current_exception();
    }
  }

  /// Then nothing else has happened, and the error can be told as it is.
  void throw_if_all_failed() const {
    std::exception_ptr worst;
    const auto weight = [](const std::exception_ptr& failure) {
      try {
        std::rethrow_exception(failure);
      } catch (const OutcomeUnknown&) {
        return 3;
      } catch (const ServerRefused&) {
        return 2;
      } catch (...) {
        return 1;
      }
    };
    for (const Part& part : parts_) {
      if (!part.failure) return;
      if (!worst || weight(part.failure) > weight(worst)) worst = part.failure;
    }
    std::rethrow_exception(worst);
  }

  /// Takes the replies out of the parts. Returns the commands that have to go elsewhere.
  std::vector<Redirected> collect() {
    std::vector<Redirected> elsewhere;
    for (Part& part : parts_) {
      if (part.failure) {
        const RedisReply why = to_reply(part.failure);
        for (const std::size_t i : part.which) set(i, RedisReply(why));
        continue;
      }
      for (std::size_t i = 0; i < part.which.size(); ++i) {
        const RedisReply& reply = part.replies[i];
        if (reply.type == RedisReply::Type::error && is_about_this_server(reply.text)) {
          link_.cluster_->suspect();
        }
        const auto to = Redirection::read(reply, part.node->host());
        if (to && part.which[i] != no_command) elsewhere.push_back({part.which[i], *to});
        set(part.which[i], std::move(part.replies[i]));
      }
    }
    parts_.clear();
    return elsewhere;
  }

  /// Makes the parts of the next round.
  void follow(const std::vector<Redirected>& elsewhere, int round) {
    if (elsewhere.empty()) return;
    if (steady_clock::now() >= deadline_) {
      for (const Redirected& each : elsewhere) {
        set_error(each.command, "TRYAGAIN the slot of this key is being moved to another node");
      }
      return;
    }
    const bool undecided = std::any_of(
        elsewhere.begin(), elsewhere.end(),
        [](const Redirected& each) { return each.to.kind == Redirection::Kind::try_again; });
    // Nodes that do not agree yet can send us to and fro.
    if (undecided || round > 2) std::this_thread::sleep_for(pause_before_next_try);
    for (const Redirected& each : elsewhere) {
      if (each.to.kind == Redirection::Kind::try_again) {
        distribute({&each.command, 1});
        continue;
      }
      const bool asks = each.to.kind == Redirection::Kind::ask;
      if (!asks) link_.cluster_->moved(each.to.slot, each.to.address);
      add(part_for(link_.node_at(each.to.address), asks), each.command);
    }
  }

  void set(std::size_t command, RedisReply&& reply) {
    if (command == no_command) return;
    // A command without a key has several replies: an error is kept.
    if (commands_[command].key.empty() && is_failure(replies_[command])) return;
    replies_[command] = std::move(reply);
  }

  void set_error(std::size_t command, const char* text) {
    replies_[command] = {};
    replies_[command].type = RedisReply::Type::error;
    replies_[command].text = text;
  }

  static RedisReply to_reply(const std::exception_ptr& failure) {
    RedisReply reply;
    reply.type = RedisReply::Type::not_sent;
    try {
      std::rethrow_exception(failure);
    } catch (const OutcomeUnknown& error) {
      reply.type = RedisReply::Type::no_reply;
      reply.text = error.what();
    } catch (const std::exception& error) {
      reply.text = error.what();
    }
    return reply;
  }

  static constexpr std::array<std::string_view, 1> asking_words{"ASKING"};

  ClusterLink& link_;
  const std::span<const RedisCommand> commands_;
  const RedisCall& call_;
  const steady_clock::time_point deadline_;
  std::vector<RedisReply> replies_;
  std::vector<std::size_t> without_key_;  // commands that every node gets
  std::vector<Part> parts_;               // of this round
};

ClusterLink::ClusterLink(std::shared_ptr<Cluster> cluster, ClusterAccess::Use use,
                         std::shared_ptr<spdlog::logger> logger)
    : cluster_(std::move(cluster)),
      use_(use),
      logger_(std::move(logger)),
      listener_(cluster_->add_listener([this](const SlotMap& slots) {
        forget_all_but(slots);
        return Cluster::Told::done;
      })) {}

ClusterLink::~ClusterLink() {
  cluster_->remove_listener(listener_);
  const ThreadLock lock(mutex_);
  for (auto& [address, node] : nodes_) retired_.push_back(std::move(node));
  destroy_side_by_side(retired_);
}

std::vector<RedisReply> ClusterLink::pipeline(std::span<const RedisCommand> commands,
                                              const RedisCall& call) {
  if (commands.empty()) return {};
  return Run{*this, commands, call}.run();
}

std::vector<std::shared_ptr<RedisLink>> ClusterLink::primaries() {
  std::vector<std::shared_ptr<RedisLink>> links;
  for (const Address& address : cluster_->slots()->primaries()) {
    links.push_back(node_at(address)->link());
  }
  return links;
}

std::string ClusterLink::server_of(std::string_view key) {
  const auto slots = cluster_->known_slots();
  const Address* owner = slots ? slots->owner_of(slot_of(key)) : nullptr;
  return owner ? to_text(*owner) : std::string{};
}

std::shared_ptr<RedisLink> ClusterLink::link_for_renewals() {
  return std::make_shared<ClusterLink>(cluster_, ClusterAccess::Use::renewals, logger_);
}

std::unique_ptr<RedisSubscription> ClusterLink::subscribe(
    std::string channel, std::function<void(std::string_view)> on_message,
    std::function<void()> on_subscribed) {
  return std::make_unique<ClusterSubscription>(cluster_, std::move(channel), std::move(on_message),
                                               std::move(on_subscribed), logger_);
}

std::shared_ptr<ClusterLink::Node> ClusterLink::node_at(const Address& address) {
  const ThreadLock lock(mutex_);
  auto& node = nodes_[to_text(address)];
  if (!node) node = std::make_shared<Node>(*cluster_, address, use_);
  return node;
}

/// One that answers, as far as we know.
std::shared_ptr<ClusterLink::Node> ClusterLink::any_node() {
  const auto slots = cluster_->slots();
  std::shared_ptr<Node> node;
  for (const Address& address : slots->primaries()) {
    node = node_at(address);
    if (!node->silent()) break;
  }
  return node;
}

/// Nodes that have left the cluster, or are replicas now, are not needed any more.
void ClusterLink::forget_all_but(const SlotMap& slots) {
  const ThreadLock lock(mutex_);
  std::erase_if(retired_, [](const auto& node) { return !node->silent(); });
  for (auto each = nodes_.begin(); each != nodes_.end();) {
    const auto& primaries = slots.primaries();
    const bool stays = std::any_of(primaries.begin(), primaries.end(), [&](const Address& address) {
      return to_text(address) == each->first;
    });
    if (!stays) {
      each->second->retire();
      retired_.push_back(std::move(each->second));
    }
    each = stays ? std::next(each) : nodes_.erase(each);
  }
}

std::shared_ptr<RedisLink> connect_cluster(ClusterAccess access,
                                           std::shared_ptr<spdlog::logger> logger) {
  return std::make_shared<ClusterLink>(std::make_shared<Cluster>(std::move(access)),
                                       ClusterAccess::Use::commands, std::move(logger));
}

}  // namespace leasehold::inline v0::redis
