#include "redis/cluster.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "redis/connection.hpp"
#include "redis/destination.hpp"
#include "redis/redis_errors.hpp"
#include "redis/tls.hpp"
#include "support/start_thread.hpp"

namespace leasehold::inline v0::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Without any suspicion. Finds nodes that have joined or left.
constexpr milliseconds round_time{5'000};

// However many suspect something.
constexpr milliseconds shortest_pause{50};

// A node that does not answer within this time must not keep us from asking the others.
constexpr milliseconds patience{500};

}  // namespace

Cluster::Cluster(const RedisUri& uri, milliseconds connect_timeout)
    : uri_(uri), connect_timeout_(connect_timeout), tls_(TlsContext::load(uri.tls)) {}

Cluster::~Cluster() {
  std::jthread thread;  // joined without the mutex, which it needs to come to its end
  const ThreadLock lock(mutex_);
  thread = std::move(thread_);
}

std::shared_ptr<Destination> Cluster::destination_of(const RedisUri::Address& node) const {
  return std::make_shared<Destination>(uri_.at(node), connect_timeout_, tls_);
}

void Cluster::start_thread_once() {
  if (thread_.joinable()) return;
  thread_ =
      start_thread("that asks the cluster", [this](const std::stop_token& stop) { run(stop); });
}

std::shared_ptr<const SlotMap> Cluster::slots() {
  ThreadLock lock(mutex_);
  if (slots_) return slots_;
  start_thread_once();
  wanted_ = true;
  changed_.notify_all();
  const unsigned round = rounds_;
  changed_.wait_for(lock, connect_timeout_,
                    [&]() LEASEHOLD_REQUIRES(mutex_) { return slots_ || rounds_ > round; });
  if (slots_) return slots_;
  if (refused_) throw ServerRefused(*refused_);
  throw Unavailable(uri_.display() + ": no node says where the keys are: " +
                    (problem_.empty() ? "none has answered within the time-out" : problem_));
}

void Cluster::suspect() {
  const ThreadLock lock(mutex_);
  if (wanted_) return;
  start_thread_once();
  wanted_ = true;
  changed_.notify_all();
}

void Cluster::moved(int slot, const RedisUri::Address& to) {
  const ThreadLock lock(mutex_);
  if (!slots_) return;
  const RedisUri::Address* known = slots_->owner_of(slot);
  if (known && *known == to) return;
  auto changed = std::make_shared<SlotMap>(*slots_);
  changed->assign(slot, slot, to);
  slots_ = std::move(changed);
  wanted_ = true;  // others have probably moved, too
  changed_.notify_all();
}

int Cluster::add_listener(Listener listener) {
  const ThreadLock lock(listeners_mutex_);
  listeners_.emplace(next_listener_, std::move(listener));
  told_ = nullptr;  // so that this one is told, too
  return next_listener_++;
}

void Cluster::remove_listener(int number) {
  const ThreadLock lock(listeners_mutex_);
  listeners_.erase(number);
}

void Cluster::run(const std::stop_token& stop) {
  ThreadLock lock(mutex_);
  while (!stop.stop_requested()) {
    changed_.wait_for(lock, stop, round_time,
                      [this]() LEASEHOLD_REQUIRES(mutex_) { return wanted_; });
    if (stop.stop_requested()) return;
    wanted_ = false;
    lock.unlock();
    ask_one_of_them(stop);
    tell_listeners(stop);
    lock.lock();
    changed_.wait_for(lock, stop, shortest_pause, [] { return false; });
  }
}

void Cluster::ask_one_of_them(const std::stop_token& stop) {
  std::vector<RedisUri::Address> nodes;
  {
    const ThreadLock lock(mutex_);
    if (slots_) nodes = slots_->primaries();
  }
  for (const auto& seed : uri_.seeds) {
    if (std::find(nodes.begin(), nodes.end(), seed) == nodes.end()) nodes.push_back(seed);
  }
  std::string problem;
  std::optional<ServerRefused> refused;
  std::optional<SlotMap> found;
  // Another one each time: the one that was asked last may be cut off from the others.
  ++turn_;
  for (std::size_t i = 0; i < nodes.size() && !found && !stop.stop_requested(); ++i) {
    try {
      found = ask(nodes[(turn_ + i) % nodes.size()]);
    } catch (const ServerRefused& error) {
      refused = error;
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  const ThreadLock lock(mutex_);
  ++rounds_;
  problem_ = std::move(problem);
  refused_ = std::move(refused);
  if (found && (!slots_ || *slots_ != *found)) {
    slots_ = std::make_shared<const SlotMap>(std::move(*found));
  }
  changed_.notify_all();
}

SlotMap Cluster::ask(const RedisUri::Address& node) const {
  const RedisUri uri = uri_.at(node);
  Connection connection{
      std::make_shared<Destination>(uri, std::min(patience, connect_timeout_), tls_)};
  connection.connect();
  const std::array<std::string_view, 2> words{"CLUSTER", "SLOTS"};
  std::string bytes;
  encode(words, bytes);
  const auto deadline = steady_clock::now() + patience;
  try {
    connection.send(bytes, deadline);
    const RedisReply reply = checked(connection.receive(deadline), uri.display());
    if (auto map = SlotMap::read(reply, node.host)) return std::move(*map);
  } catch (const Connection::Broken& broken) {
    throw Unavailable(uri.display() + ": " + broken.why);
  }
  throw Unavailable(uri.display() + ": this node knows of no slots");
}

void Cluster::tell_listeners(const std::stop_token& stop) {
  const ThreadLock lock(listeners_mutex_);
  std::shared_ptr<const SlotMap> now;
  {
    const ThreadLock slots_lock(mutex_);
    now = slots_;
  }
  if (!now || now == told_) return;
  told_ = now;
  for (const auto& [number, listener] : listeners_) {
    if (stop.stop_requested()) return;
    listener(*now);
  }
}

}  // namespace leasehold::inline v0::redis
