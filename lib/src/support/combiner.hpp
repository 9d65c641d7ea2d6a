#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <span>
#include <vector>

#include "leasehold/errors.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0 {

/// Combines the calls of several threads. Once the limit of concurrent calls is reached, later
/// callers are collected, and one of them then calls for all. They wait no longer than `patience`,
/// so that a call that hangs does not hold up the others. A single caller pays nothing for it.
/// Thread-safe.
template <class Item>
class Combiner {
 public:
  /// Does the work for all items.
  using Call = std::function<void(std::span<Item* const>)>;
  /// Whether `next` may be combined with the items that are chosen already.
  using Joins = std::function<bool(std::span<Item* const>, const Item& next)>;

  Combiner(std::size_t most_under_way, Joins joins, Call call,
           std::chrono::milliseconds patience = std::chrono::milliseconds{50})
      : most_under_way_(most_under_way),
        joins_(std::move(joins)),
        call_(std::move(call)),
        patience_(patience) {}

  /// Returns when a call for this item has returned, and throws what that call threw.
  void submit(Item& item) {
    Ticket ticket{&item};
    ThreadLock lock(mutex_);
    waiting_.push_back(&ticket);
    if (waiting_.size() >= expected_) complete_.notify_all();
    const auto is_noticed = [&] { return ticket.state != State::waits; };
    if (under_way_ < most_under_way_) {
      ++under_way_;
      ticket.state = State::leads;
    } else if (!ticket.changed.wait_for(lock, patience_, is_noticed)) {
      ++under_way_;
      lead(ticket);  // without waiting for more callers, whose patience ends soon too
    }
    ticket.changed.wait(lock, [&] { return ticket.state >= State::leads; });
    if (ticket.state == State::leads) {
      gather(lock);
      lead(ticket);
    }
    if (ticket.error) std::rethrow_exception(ticket.error);
  }

  /// How many callers are waiting for a later call.
  std::size_t waiting() const {
    const ThreadLock lock(mutex_);
    return waiting_.size();
  }

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { waits, is_served, leads, done };

  struct Ticket {
    Item* item;
    State state = State::waits;
    std::exception_ptr error{};
    ThreadCondition changed{};
  };

  /// Makes the call, and lets go of the mutex meanwhile. Without memory for that the leader fails,
  /// and the others wait for a later call.
  void lead(Ticket& leader) LEASEHOLD_REQUIRES(mutex_) {
    std::vector<Ticket*> tickets;
    try {
      tickets = choose(leader);
    } catch (const std::exception&) {
      leader.error = std::current_exception();
      leader.state = State::done;
      for (Ticket* ticket : waiting_) {
        if (ticket->state == State::is_served) ticket->state = State::waits;
      }
    }
    std::erase_if(waiting_, [&](Ticket* ticket) {
      return ticket == &leader || ticket->state == State::is_served;
    });
    if (!tickets.empty()) {
      mutex_.unlock();
      const auto begin = Clock::now();
      run(tickets);
      mutex_.lock();
      last_took_ = Clock::now() - begin;
      expected_ = tickets.size() + waiting_.size();
    }
    for (Ticket* ticket : tickets) {
      ticket->state = State::done;
      ticket->changed.notify_one();  // with the lock held: otherwise the ticket may be gone
    }
    // Our place goes to a caller who waits.
    for (Ticket* ticket : waiting_) {
      if (ticket->state != State::waits) continue;  // it leads already but has not woken up yet
      ticket->state = State::leads;
      ticket->changed.notify_one();
      return;
    }
    --under_way_;
  }

  /// Callers who were just served often come back at once. If the first of them did not wait for
  /// the others, they would have to wait for its whole call. A single caller waits for nobody.
  void gather(ThreadLock& lock) LEASEHOLD_REQUIRES(mutex_) {
    if (calls_until_gathering_ > 0) {
      --calls_until_gathering_;
      return;
    }
    const auto worth_it = std::min<Clock::duration>(last_took_ / 8, patience_ / 16);
    const bool complete = complete_.wait_for(lock, worth_it, [this]() LEASEHOLD_REQUIRES(mutex_) {
      return waiting_.size() >= expected_;
    });
    if (!complete) calls_until_gathering_ = 16;  // they did not come back
  }

  /// The leader, and all tickets that may be combined with it. All but the leader are served from
  /// now on.
  std::vector<Ticket*> choose(Ticket& leader) LEASEHOLD_REQUIRES(mutex_) {
    std::vector<Ticket*> tickets{&leader};
    std::vector<Item*> items{leader.item};
    for (Ticket* ticket : waiting_) {
      if (ticket == &leader || ticket->state != State::waits) continue;
      if (!joins_(items, *ticket->item)) continue;
      tickets.push_back(ticket);
      items.push_back(ticket->item);
      ticket->state = State::is_served;
    }
    return tickets;
  }

  /// If the server refuses the call because of one item, the others must not suffer.
  void run(std::span<Ticket* const> tickets) {
    try {
      std::vector<Item*> items;
      for (Ticket* ticket : tickets) items.push_back(ticket->item);
      call_(items);
    } catch (const ServerRefused&) {
      if (tickets.size() == 1) {
        tickets.front()->error = std::current_exception();
      } else {
        for (std::size_t i = 0; i < tickets.size(); ++i) run(tickets.subspan(i, 1));
      }
    } catch (...) {
      for (Ticket* ticket : tickets) ticket->error = std::current_exception();
    }
  }

  const std::size_t most_under_way_;
  const Joins joins_;
  const Call call_;
  const std::chrono::milliseconds patience_;

  mutable ThreadMutex mutex_;
  ThreadCondition complete_;
  // In order of arrival. A leader is among them until it has chosen its companions.
  std::deque<Ticket*> waiting_ LEASEHOLD_GUARDED_BY(mutex_);
  std::size_t under_way_ LEASEHOLD_GUARDED_BY(mutex_) = 0;
  Clock::duration last_took_ LEASEHOLD_GUARDED_BY(mutex_){0};  // of the last call
  // How many will wait if all callers that the last call served come back.
  std::size_t expected_ LEASEHOLD_GUARDED_BY(mutex_) = 0;
  int calls_until_gathering_ LEASEHOLD_GUARDED_BY(mutex_) = 0;
};

}  // namespace leasehold::inline v0
