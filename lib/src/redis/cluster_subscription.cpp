#include "redis/cluster_subscription.hpp"

#include <spdlog/logger.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "locks/lock_message.hpp"
#include "redis/lock_keys.hpp"
#include "support/destroy.hpp"
#include "support/log_event.hpp"
#include "support/start_thread.hpp"

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
  listener_ = cluster_->add_listener([this](const SlotMap& slots) { return follow(slots); });
  cluster_->suspect();
}

ClusterSubscription::~ClusterSubscription() {
  cluster_->remove_listener(listener_);
  std::vector<std::unique_ptr<RedisSubscription>> all;
  {
    const ThreadLock lock(mutex_);
    for (auto& [name, node] : nodes_) all.push_back(std::move(node.subscription));
    nodes_.clear();
  }
  destroy_side_by_side(all);  // without the mutex, which their threads need
}

/// Subscribes on the primaries that are new, and leaves the others.
Cluster::Told ClusterSubscription::follow(const SlotMap& slots) {
  auto told = Cluster::Told::done;
  std::vector<std::unique_ptr<RedisSubscription>> gone;
  {
    const ThreadLock lock(mutex_);
    std::map<std::string, Node> before;
    before.swap(nodes_);
    for (const auto& address : slots.primaries()) {
      const std::string name = to_text(address);
      Node& node = nodes_[name];
      if (const auto known = before.find(name); known != before.end()) {
        node = std::move(known->second);
      }
      try {
        if (!node.subscription) node.subscription = subscribe_at(address);
      } catch (const std::exception& error) {
        told = Cluster::Told::again;
        log_warn(*logger_, "not subscribed, locks are handed over late",
                 {{"channel", channel_}, {"error", error.what()}});
      }
    }
    for (auto& [name, node] : before) {
      if (node.subscription) gone.push_back(std::move(node.subscription));
    }
  }
  leave(std::move(gone));
  return told;
}

std::unique_ptr<RedisSubscription> ClusterSubscription::subscribe_at(
    const RedisUri::Address& address) {
  const std::string name = to_text(address);
  return cluster_->access()
      .connect(address, ClusterAccess::Use::commands)
      ->subscribe(
          channel_, [this, name](std::string_view message) { deliver(name, message); },
          [this, name] { note_subscribed(name); });
}

/// On a thread of its own: one that is connecting to a node which does not answer would keep the
/// cluster's thread from finding out where the slots are now.
void ClusterSubscription::leave(std::vector<std::unique_ptr<RedisSubscription>> gone) {
  if (gone.empty()) return;
  const auto shared =
      std::make_shared<std::vector<std::unique_ptr<RedisSubscription>>>(std::move(gone));
  try {
    leaver_ =
        start_thread("that leaves nodes of a cluster", [shared] { destroy_side_by_side(*shared); });
  } catch (const Unavailable&) {
    destroy_side_by_side(*shared);
  }
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
