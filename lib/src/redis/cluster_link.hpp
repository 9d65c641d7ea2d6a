#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "leasehold/redis_link.hpp"
#include "redis/cluster.hpp"
#include "support/internal_api.hpp"
#include "support/thread_safety.hpp"

namespace spdlog {
class logger;
}

namespace leasehold::inline v0::redis {

/// A link to all primaries of a cluster, with a link to each of them that is in use. A pipeline is
/// cut into one part for each node, and these run side by side.
///
/// A node that has let a call wait in vain is left alone until it answers a PING: meanwhile calls
/// for it fail at once, so that those for the other nodes are not delayed.
class ClusterLink final : public RedisLink {
 public:
  ClusterLink(std::shared_ptr<Cluster> cluster, ClusterAccess::Use use,
              std::shared_ptr<spdlog::logger> logger);
  ~ClusterLink() override;

  std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands,
                                   const RedisCall& call) override;
  std::vector<std::shared_ptr<RedisLink>> primaries() override;
  std::string server_of(std::string_view key) override;
  std::shared_ptr<RedisLink> link_for_renewals() override;
  std::unique_ptr<RedisSubscription> subscribe(std::string channel,
                                               std::function<void(std::string_view)> on_message,
                                               std::function<void()> on_subscribed) override;
  std::string where() const override { return cluster_->access().where; }

 private:
  using Address = RedisUri::Address;

  class Node;
  struct Part;
  class Run;

  std::shared_ptr<Node> node_at(const Address& address);
  std::shared_ptr<Node> any_node();
  void forget_all_but(const SlotMap& slots);

  const std::shared_ptr<Cluster> cluster_;
  const ClusterAccess::Use use_;
  const std::shared_ptr<spdlog::logger> logger_;

  ThreadMutex mutex_;
  std::map<std::string, std::shared_ptr<Node>> nodes_ LEASEHOLD_GUARDED_BY(mutex_);  // by address
  std::vector<std::shared_ptr<Node>> retired_ LEASEHOLD_GUARDED_BY(mutex_);

  int listener_;
};

/// For a client that brings its own way to reach the nodes. Logs what no caller would be told.
LEASEHOLD_INTERNAL_API std::shared_ptr<RedisLink> connect_cluster(
    ClusterAccess access, std::shared_ptr<spdlog::logger> logger);

}  // namespace leasehold::inline v0::redis
