#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "leasehold/errors.hpp"
#include "redis/cluster_slots.hpp"
#include "redis/redis_uri.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0::redis {

class Destination;
class TlsContext;

/// Knows which node of a Redis Cluster has which slots. A thread asks the nodes, one after the
/// other until one of them answers: every few seconds, and at once when somebody suspects that it
/// has changed. Thread-safe.
class Cluster {
 public:
  using Listener = std::function<void(const SlotMap&)>;

  /// Reads the files that RedisUri::tls names. Throws InvalidArgument if they are of no use.
  Cluster(const RedisUri& uri, std::chrono::milliseconds connect_timeout);
  ~Cluster();

  const RedisUri& uri() const noexcept { return uri_; }

  /// Where the connections to one node lead.
  std::shared_ptr<Destination> destination_of(const RedisUri::Address& node) const;

  /// What is known. Asks if nothing is known yet. Throws Unavailable or ServerRefused.
  std::shared_ptr<const SlotMap> slots();

  /// Asks the nodes soon: something went wrong that may mean that the slots have moved. Throws
  /// Unavailable if it cannot start its thread, which only the first call does.
  void suspect();

  /// A node has said that this one has the slot.
  void moved(int slot, const RedisUri::Address& to);

  /// Calls it on the thread of this object after the next round of asking, and whenever the map has
  /// changed. Returns a number for remove_listener(), which waits until the listener has returned.
  int add_listener(Listener listener);
  void remove_listener(int number);

 private:
  void start_thread_once() LEASEHOLD_REQUIRES(mutex_);
  void run(const std::stop_token& stop);
  void ask_one_of_them(const std::stop_token& stop);
  SlotMap ask(const RedisUri::Address& node) const;
  void tell_listeners(const std::stop_token& stop);

  const RedisUri uri_;
  const std::chrono::milliseconds connect_timeout_;
  const std::shared_ptr<const TlsContext> tls_;
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
  std::string problem_ LEASEHOLD_GUARDED_BY(mutex_);  // of the last round
  std::optional<ServerRefused> refused_ LEASEHOLD_GUARDED_BY(mutex_);
  std::jthread thread_ LEASEHOLD_GUARDED_BY(mutex_);  // starts with the first question
};

}  // namespace leasehold::inline v0::redis
