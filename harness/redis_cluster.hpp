#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "free_port.hpp"
#include "redis_endpoint.hpp"
#include "redis_server.hpp"
#include "temp_dir.hpp"

namespace leasehold::harness {

struct RedisClusterOptions {
  RedisServerOptions servers;  ///< of each node; replicas log in with the same password
  /// How long a node does not answer before others consider it down. Short ones make failovers
  /// quick, but on a busy machine also cause some that no test asked for.
  std::chrono::milliseconds node_timeout{2000};
};

/// What has been done of move_slot().
enum class SlotMove {
  opened,       ///< source and target know of the move; all keys are at the source
  part_moved,   ///< some keys are at the target, some at the source; once for each such batch
  keys_moved,   ///< all keys are at the target, but the slot still belongs to the source
  target_owns,  ///< the target has taken the slot; the source and the others may not know yet
};

/// A Redis Cluster of three primaries, node(0) to node(2), with a replica each: that of node(i) is
/// node(i + 3). These pairs never change, but with every failover the two change places. The
/// constructor returns when the cluster is complete in the view of every node.
///
/// As a RedisEndpoint it is the whole cluster; address() and port() are those of node(0). Nodes can
/// be killed, paused and started again one by one, and keep their place in the cluster even when
/// they lose their data. Without persistence, which is the default, a primary that starts again
/// before its replica has taken over is empty, and so is its replica then. Apart from uri(),
/// command(), keys(), primary_of() and primaries(), for one thread at a time.
class RedisCluster final : public RedisEndpoint {
 public:
  static constexpr int primary_count = 3;
  static constexpr int node_count = 2 * primary_count;
  static constexpr int slot_count = 16'384;

  explicit RedisCluster(const RedisClusterOptions& options = {});
  ~RedisCluster() override;

  /// The slot of a key, or of its hash tag.
  static int slot_of(std::string_view key);

  /// redis+cluster://NODE,NODE,NODE with node(0) to node(2), and the password when there is one.
  std::string uri() const override;

  /// Runs a command where its first key is, wherever that has moved to. Without a key:
  ///  - KEYS returns the keys of all primaries, PUBSUB CHANNELS the channels of all nodes.
  ///  - FLUSHALL and FLUSHDB run on all primaries; ACL, CLIENT, CONFIG and SCRIPT on all nodes that
  ///    are up. The reply is the first error, or else the first reply.
  ///  - Others run on the first primary.
  /// Throws while no node that answers owns the key, or one of the slots if the command is for all
  /// primaries.
  RedisReply command(const std::vector<std::string>& words) const override;

  RedisServer& node(int i) const { return *nodes_.at(static_cast<std::size_t>(i)); }
  /// The node that owns the key, by what the nodes that answer say of themselves. Throws when none
  /// does: its primary is down and was not replaced yet.
  RedisServer& primary_of(std::string_view key) const;
  /// The nodes that own slots and answer, in the order of their numbers.
  std::vector<RedisServer*> primaries() const;

  /// Moves a slot and its keys while the cluster is in use, as redis-cli does when it reshards.
  /// `between` is called after each step. All primaries know the new owner on return; replicas hear
  /// of it soon after. Both nodes must be primaries; throws when a step fails.
  void move_slot(int slot, const RedisServer& from, const RedisServer& to,
                 const std::function<void(SlotMove)>& between = {});

  /// Lets the replica of node(i), a primary, take over in an orderly way, and returns at once. No
  /// write that was confirmed gets lost. The cluster refuses to replace the same node twice within
  /// twice node_timeout.
  void fail_over(int i);
  /// Waits until the replica of node(i) has taken over in the view of all nodes that are up, and
  /// all slots are served. Returns the new primary; throws after two minutes.
  RedisServer& await_takeover(int i);
  /// Waits for the state that the constructor leaves, after failures: every node runs, all slots
  /// are served and each primary has its replica in sync. Throws after two minutes.
  void await_ready();

 private:
  struct SlotRange {
    int first = 0;
    int last = 0;
  };
  /// What a node says of itself.
  struct Claim {
    RedisServer* node = nullptr;
    std::uint64_t epoch = 0;
    std::vector<SlotRange> slots;
  };
  struct Parts {
    std::unique_ptr<TempDir> dir;
    std::vector<FreePort> bus_ports;
    std::vector<std::unique_ptr<RedisServer>> nodes;
  };

  RedisCluster(Parts parts, const RedisClusterOptions& options);
  static Parts start_nodes(const RedisClusterOptions& options);
  void introduce();
  void configure_all(const std::string& name, const std::string& value);
  RedisServer& partner_of(int i) const { return node((i + primary_count) % node_count); }
  RedisServer& node_at(std::int64_t port) const;
  std::vector<RedisServer*> up_nodes() const;
  /// Of all nodes that answer. Where two claim the same slot, the later one is right.
  std::vector<Claim> claims() const;
  /// Of each slot; a null pointer where no node that answers claims it.
  std::vector<RedisServer*> owners() const;
  RedisServer& owner_of(int slot) const;
  /// primaries(), or throws when some slots belong to none of them.
  std::vector<RedisServer*> all_primaries() const;
  std::optional<std::string> first_key(const std::vector<std::string>& words) const;
  RedisReply on_owner(int slot, const std::vector<std::string>& words) const;
  RedisReply asking(const RedisReply& redirection, const std::vector<std::string>& words) const;
  std::string missing_in(const RedisServer& node, const std::vector<RedisServer*>& owners) const;

  // What the nodes know of the cluster. Not in their own directories: it must not be lost with
  // their data.
  const std::unique_ptr<TempDir> dir_;
  const std::vector<FreePort> bus_ports_;
  const std::vector<std::unique_ptr<RedisServer>> nodes_;
};

}  // namespace leasehold::harness
