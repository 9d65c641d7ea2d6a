#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "leasehold/redis_link.hpp"
#include "redis/cluster_slots.hpp"
#include "redis/redis_errors.hpp"
#include "redis/redis_uri.hpp"
#include "support/backoff.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0::redis {

/// A node that does not answer within this time must not keep us from asking the others.
inline constexpr std::chrono::milliseconds longest_question{500};

/// How to reach a cluster.
struct ClusterAccess {
  using Address = RedisUri::Address;
  enum class Use {
    commands,
    renewals,   ///< slow commands must not delay them
    questions,  ///< one command; should give up after longest_question
  };

  std::string where;           ///< begins messages
  std::vector<Address> seeds;  ///< some nodes, of which one has to answer
  std::chrono::milliseconds connect_timeout;
  std::chrono::milliseconds command_timeout;
  /// Makes a link to one node, without waiting for that node. Called from any thread.
  std::function<std::shared_ptr<RedisLink>(const Address&, Use)> connect;
};

/// Knows which node of a Redis Cluster has which slots. A thread asks the nodes, one after the
/// other until one of them answers: every few seconds, and at once when somebody suspects that it
/// has changed. Thread-safe.
class Cluster {
 public:
  enum class Told { done, again };
  using Listener = std::function<Told(const SlotMap&)>;

  explicit Cluster(ClusterAccess access) : access_(std::move(access)) {}
  ~Cluster();

  const ClusterAccess& access() const noexcept { return access_; }

  /// What is known. Asks if nothing is known yet. Throws Unavailable or ServerRefused.
  std::shared_ptr<const SlotMap> slots();

  /// The same without asking. Null if nothing is known yet.
  std::shared_ptr<const SlotMap> known_slots();

  /// Asks the nodes soon: something went wrong that may mean that the slots have moved. Throws
  /// Unavailable if it cannot start its thread, which only the first call does.
  void suspect();

  /// A node has said that this one has the slot.
  void moved(int slot, const RedisUri::Address& to);

  /// Calls it on the thread of this object after the next round of asking, and whenever the map has
  /// changed or a listener wanted to be told again. Returns a number for remove_listener(), which
  /// waits until the listener has returned.
  int add_listener(Listener listener);
  void remove_listener(int number);

 private:
  void start_thread_once() LEASEHOLD_REQUIRES(mutex_);
  void run(const std::stop_token& stop);
  void ask_one_of_them(const std::stop_token& stop);
  SlotMap ask(const RedisUri::Address& node) const;
  void tell_listeners(const std::stop_token& stop);

  const ClusterAccess access_;
  std::size_t turn_ = 0;  // whom to ask first; used by the thread only

  ThreadMutex listeners_mutex_;  // held while they are called
  std::map<int, Listener> listeners_ LEASEHOLD_GUARDED_BY(listeners_mutex_);
  std::shared_ptr<const SlotMap> told_ LEASEHOLD_GUARDED_BY(listeners_mutex_);
  int next_listener_ LEASEHOLD_GUARDED_BY(listeners_mutex_) = 0;

  ThreadMutex mutex_;
  StoppableCondition changed_;
  bool wanted_ LEASEHOLD_GUARDED_BY(mutex_) = false;
  unsigned rounds_ LEASEHOLD_GUARDED_BY(mutex_) = 0;  // of asking that are over
  std::shared_ptr<const SlotMap> slots_ LEASEHOLD_GUARDED_BY(mutex_);
  /// Between rounds, however many suspect something.
  Backoff pauses_ LEASEHOLD_GUARDED_BY(mutex_){std::chrono::milliseconds{50},
                                               std::chrono::milliseconds{1'000}};
  std::string problem_ LEASEHOLD_GUARDED_BY(mutex_);  // of the last round
  std::optional<Refusal> refused_ LEASEHOLD_GUARDED_BY(mutex_);
  std::jthread thread_ LEASEHOLD_GUARDED_BY(mutex_);  // starts with the first question
};

}  // namespace leasehold::inline v0::redis
