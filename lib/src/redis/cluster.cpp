#include "redis/cluster.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "redis/redis_errors.hpp"
#include "support/start_thread.hpp"

namespace leasehold::inline v0::redis {
namespace {

using std::chrono::milliseconds;

// Without any suspicion. Finds nodes that have joined or left.
constexpr milliseconds round_time{5'000};

}  // namespace

Cluster::~Cluster() {
  std::jthread thread;  // joined without the mutex, which it needs to come to its end
  const ThreadLock lock(mutex_);
  thread = std::move(thread_);
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
  changed_.wait_for(lock, access_.connect_timeout,
                    [&]() LEASEHOLD_REQUIRES(mutex_) { return slots_ || rounds_ > round; });
  if (slots_) return slots_;
  if (refused_) refused_->raise();
  throw Unavailable(access_.where + ": no node says where the keys are: " +
                    (problem_.empty() ? "none has answered within the time-out" : problem_));
}

std::shared_ptr<const SlotMap> Cluster::known_slots() {
  const ThreadLock lock(mutex_);
  return slots_;
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
    changed_.wait_for(lock, stop, pauses_.next(), [] { return false; });
    if (!wanted_) pauses_.reset();
  }
}

void Cluster::ask_one_of_them(const std::stop_token& stop) {
  std::vector<RedisUri::Address> nodes;
  if (const auto known = known_slots()) nodes = known->primaries();
  // Another one each time: the one that was asked last may be cut off from the others.
  if (!nodes.empty()) {
    std::rotate(nodes.begin(), nodes.begin() + static_cast<int>(++turn_ % nodes.size()),
                nodes.end());
  }
  // Last, because one of them may have left the cluster without knowing it.
  nodes.insert(nodes.end(), access_.seeds.begin(), access_.seeds.end());
  std::string problem;
  std::optional<Refusal> refused;
  std::optional<SlotMap> found;
  for (const auto& node : nodes) {
    if (found || stop.stop_requested()) break;
    try {
      found = ask(node);
    } catch (const ServerRefused& error) {
      refused.emplace(error);
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
    pauses_.reset();
  }
  changed_.notify_all();
}

SlotMap Cluster::ask(const RedisUri::Address& node) const {
  const auto link = access_.connect(node, ClusterAccess::Use::questions);
  const std::array<std::string_view, 2> words{"CLUSTER", "SLOTS"};
  const RedisCommand command{words};
  auto replies = link->pipeline({&command, 1}, {.timeout = longest_question});
  const RedisReply reply = checked(std::move(replies.front()), link->where());
  if (auto map = SlotMap::read(reply, node.host)) return std::move(*map);
  throw Unavailable(link->where() + ": this node knows of no slots");
}

void Cluster::tell_listeners(const std::stop_token& stop) {
  const ThreadLock lock(listeners_mutex_);
  const auto now = known_slots();
  if (!now || now == told_) return;
  told_ = now;
  for (const auto& [number, listener] : listeners_) {
    if (stop.stop_requested()) return;
    if (listener(*now) == Told::again) told_ = nullptr;
  }
}

}  // namespace leasehold::inline v0::redis
