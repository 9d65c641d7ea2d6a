#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "leasehold/errors.hpp"

namespace leasehold::inline v0 {

/// Makes the calls of several threads as one. While as many calls are under way as may be, those
/// who come later gather, and one of them then calls for all; at the latest when their patience
/// ends, so that a call that hangs does not hold up the others. A single caller pays nothing for
/// it. Thread-safe.
template <class Item>
class Combiner {
 public:
  /// Does the work for all of them.
  using Call = std::function<void(std::span<Item* const>)>;
  /// Whether `next` may go with those that are chosen already.
  using Joins = std::function<bool(std::span<Item* const>, const Item& next)>;

  Combiner(std::size_t most_under_way, Joins joins, Call call,
           std::chrono::milliseconds patience = std::chrono::milliseconds{50})
      : most_under_way_(most_under_way),
        joins_(std::move(joins)),
        call_(std::move(call)),
        patience_(patience) {}

  /// Returns when a call for this item has returned; throws what it threw.
  void submit(Item& item) {
    Ticket ticket{&item};
    std::unique_lock lock(mutex_);
    waiting_.push_back(&ticket);
    if (waiting_.size() >= expected_) complete_.notify_all();
    const auto is_noticed = [&] { return ticket.state != State::waits; };
    if (under_way_ < most_under_way_) {
      ++under_way_;
      ticket.state = State::leads;
    } else if (!ticket.changed.wait_for(lock, patience_, is_noticed)) {
      ++under_way_;
      lead(lock, ticket);  // without waiting for more: they lose their patience too
    }
    ticket.changed.wait(lock, [&] { return ticket.state >= State::leads; });
    if (ticket.state == State::leads) {
      gather(lock);
      lead(lock, ticket);
    }
    if (ticket.error) std::rethrow_exception(ticket.error);
  }

  /// How many gather for a later call.
  std::size_t waiting() const {
    const std::lock_guard guard(mutex_);
    return waiting_.size();
  }

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { waits, is_served, leads, done };

  struct Ticket {
    Item* item;
    State state = State::waits;
    std::exception_ptr error{};
    std::condition_variable changed{};
  };

  void lead(std::unique_lock<std::mutex>& lock, Ticket& leader) {
    const std::vector<Ticket*> tickets = choose(leader);
    lock.unlock();
    const auto begin = Clock::now();
    run(tickets);
    lock.lock();
    last_took_ = Clock::now() - begin;
    expected_ = tickets.size() + waiting_.size();
    for (Ticket* ticket : tickets) {
      ticket->state = State::done;
      ticket->changed.notify_one();  // with the lock: without it the ticket may be gone
    }
    // Our place goes to somebody who waits.
    for (Ticket* ticket : waiting_) {
      if (ticket->state != State::waits) continue;  // leads already, but has not woken up yet
      ticket->state = State::leads;
      ticket->changed.notify_one();
      return;
    }
    --under_way_;
  }

  /// Those who were just served often come back at once. If the first of them did not wait for the
  /// others, these would wait for its whole call. A single caller finds itself complete.
  void gather(std::unique_lock<std::mutex>& lock) {
    if (calls_until_gathering_ > 0) {
      --calls_until_gathering_;
      return;
    }
    const auto worth_it = std::min<Clock::duration>(last_took_ / 8, patience_ / 16);
    const bool complete =
        complete_.wait_for(lock, worth_it, [&] { return waiting_.size() >= expected_; });
    if (!complete) calls_until_gathering_ = 16;  // they have other things to do
  }

  /// Takes the leader, and whoever may go with it, out of those who wait.
  std::vector<Ticket*> choose(Ticket& leader) {
    std::vector<Ticket*> tickets{&leader};
    std::vector<Item*> items{leader.item};
    std::erase_if(waiting_, [&](Ticket* ticket) {
      if (ticket == &leader) return true;
      if (ticket->state != State::waits || !joins_(items, *ticket->item)) return false;
      ticket->state = State::is_served;
      tickets.push_back(ticket);
      items.push_back(ticket->item);
      return true;
    });
    return tickets;
  }

  /// What the server refuses because of one of them must not hit the others.
  void run(std::span<Ticket* const> tickets) {
    std::vector<Item*> items;
    for (Ticket* ticket : tickets) items.push_back(ticket->item);
    try {
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

  mutable std::mutex mutex_;
  std::condition_variable complete_;
  // All are protected by mutex_.
  std::deque<Ticket*> waiting_;  // in order of arrival; also who leads, until it has chosen
  std::size_t under_way_ = 0;
  Clock::duration last_took_{0};  // the last call
  std::size_t expected_ = 0;      // how many wait if all whom it served come back
  int calls_until_gathering_ = 0;
};

}  // namespace leasehold::inline v0
