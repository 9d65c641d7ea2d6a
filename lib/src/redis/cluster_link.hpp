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
  ClusterLink(std::shared_ptr<Cluster> cluster, const RedisOptions& options,
              std::shared_ptr<spdlog::logger> logger);
  ~ClusterLink() override;

  std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands,
                                   const RedisCall& call) override;
  std::vector<std::shared_ptr<RedisLink>> primaries() override;
  std::unique_ptr<RedisSubscription> subscribe(std::string channel,
                                               std::function<void(std::string_view)> on_message,
                                               std::function<void()> on_subscribed) override;
  std::string where() const override { return where_; }

 private:
  using Address = RedisUri::Address;

  class Node;
  struct Part;
  class Run;

  std::shared_ptr<Node> node_at(const Address& address);
  std::shared_ptr<Node> any_node();
  void forget_all_but(const SlotMap& slots);

  const std::shared_ptr<Cluster> cluster_;
  const RedisOptions options_;
  const std::shared_ptr<spdlog::logger> logger_;
  const std::string where_;

  ThreadMutex mutex_;
  std::map<std::string, std::shared_ptr<Node>> nodes_ LEASEHOLD_GUARDED_BY(mutex_);  // by address
  std::vector<std::shared_ptr<Node>> retired_ LEASEHOLD_GUARDED_BY(mutex_);

  int listener_;
};

}  // namespace leasehold::inline v0::redis
