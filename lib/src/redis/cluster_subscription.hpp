#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "leasehold/redis_link.hpp"
#include "redis/cluster.hpp"
#include "support/thread_safety.hpp"

namespace spdlog {
class logger;
}

namespace leasehold::inline v0::redis {

/// One channel, subscribed on every primary of a cluster: a script that publishes asks how many
/// listen on its own node. The nodes pass messages on to each other, so that each arrives once from
/// every node. The one from the node that has the lock is taken.
class ClusterSubscription final : public RedisSubscription {
 public:
  ClusterSubscription(std::shared_ptr<Cluster> cluster, std::string channel,
                      std::function<void(std::string_view)> on_message,
                      std::function<void()> on_subscribed, std::shared_ptr<spdlog::logger> logger);
  ~ClusterSubscription() override;

 private:
  struct Node {
    bool subscribed = false;
    std::unique_ptr<RedisSubscription> subscription;
  };

  Cluster::Told follow(const SlotMap& slots);
  std::unique_ptr<RedisSubscription> subscribe_at(const RedisUri::Address& address);
  void leave(std::vector<std::unique_ptr<RedisSubscription>> gone);
  void note_subscribed(const std::string& address);
  void deliver(const std::string& address, std::string_view message);

  const std::shared_ptr<Cluster> cluster_;
  const std::string channel_;
  const std::function<void(std::string_view)> on_message_;
  const std::function<void()> on_subscribed_;
  const std::shared_ptr<spdlog::logger> logger_;

  ThreadMutex calls_mutex_;  // held while one of the functions is called

  ThreadMutex mutex_;
  std::map<std::string, Node> nodes_ LEASEHOLD_GUARDED_BY(mutex_);  // by address
  bool complete_ LEASEHOLD_GUARDED_BY(mutex_) = false;  // all of them were subscribed once

  std::jthread leaver_;  // used by the thread of the cluster only
  int listener_ = 0;
};

}  // namespace leasehold::inline v0::redis
