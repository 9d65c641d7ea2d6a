#include "redis/cluster_subscription.hpp"

#include <spdlog/logger.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "locks/lock_message.hpp"
#include "redis/destination.hpp"
#include "redis/lock_keys.hpp"
#include "redis/subscription.hpp"

namespace leasehold::inline v0::redis {

ClusterSubscription::ClusterSubscription(std::shared_ptr<Cluster> cluster, std::string channel,
                                         std::function<void(std::string_view)> on_message,
                                         std::function<void()> on_subscribed,
                                         std::shared_ptr<spdlog::logger> logger)
    : cluster_(std::move(cluster)),
      channel_(std::move(channel)),
      on_message_(std::move(on_message)),
      on_subscribed_(std::move(on_subscribed)),
      logger_(std::move(logger)) {
  cluster_->suspect();  // before it knows of us, because this may throw
  listener_ = cluster_->add_listener([this](const SlotMap& slots) { follow(slots); });
  cluster_->suspect();
}

ClusterSubscription::~ClusterSubscription() {
  cluster_->remove_listener(listener_);
  std::map<std::string, Node> nodes;  // destroyed without the mutex, which their threads need
  const ThreadLock lock(mutex_);
  nodes = std::move(nodes_);
  nodes_.clear();
}

/// Subscribes on the primaries that are new, and leaves the others.
void ClusterSubscription::follow(const SlotMap& slots) {
  std::vector<std::unique_ptr<RedisSubscription>> gone;  // destroyed without the mutex
  const ThreadLock lock(mutex_);
  std::map<std::string, Node> before;
  before.swap(nodes_);
  for (const auto& address : slots.primaries()) {
    const std::string name = to_text(address);
    Node& node = nodes_[name];
    const auto known = before.find(name);
    if (known != before.end() && known->second.subscription) {
      node = std::move(known->second);
      continue;
    }
    try {
      node.subscription = std::make_unique<Subscription>(
          cluster_->destination_of(address), channel_,
          [this, name](std::string_view message) { deliver(name, message); },
          [this, name] { note_subscribed(name); }, logger_);
    } catch (const std::exception& error) {
      // The next change of the cluster tries again; until then waiting for its locks is slow.
      logger_->warn("not subscribed, locks are handed over late channel={} error=\"{}\"", channel_,
                    error.what());
    }
  }
  for (auto& [name, node] : before) gone.push_back(std::move(node.subscription));
}

void ClusterSubscription::note_subscribed(const std::string& address) {
  {
    const ThreadLock lock(mutex_);
    const auto node = nodes_.find(address);
    if (node == nodes_.end()) return;
    node->second.subscribed = true;
    // Whoever waits for the first call wants to be heard everywhere.
    complete_ = complete_ || std::all_of(nodes_.begin(), nodes_.end(),
                                         [](const auto& each) { return each.second.subscribed; });
    if (!complete_) return;
  }
  const ThreadLock lock(calls_mutex_);
  on_subscribed_();
}

void ClusterSubscription::deliver(const std::string& address, std::string_view text) {
  const auto message = parse_lock_message(text);
  if (!message) return;
  const auto slots = cluster_->slots();
  const auto* owner = slots->owner_of(slot_of(LockKeys::lock_key(message->name)));
  if (owner && to_text(*owner) != address) return;
  const ThreadLock lock(calls_mutex_);
  on_message_(text);
}

}  // namespace leasehold::inline v0::redis
