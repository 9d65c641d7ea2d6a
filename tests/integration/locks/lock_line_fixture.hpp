#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/lock_store.hpp"
#include "tests/support/test_namespace.hpp"
#include "tests/support/waiter.hpp"

namespace leasehold::testing {

using Ids = std::vector<std::string>;

/// A lock, its holder, and the line of those who wait for it.
template <class Store>
class LockLineFixture : public Store {
 public:
  void TearDown() override {
    waiters.clear();
    held.reset();
    this->store.expect_nothing_left();
    EXPECT_EQ(client.stats().waiting, 0U);
    EXPECT_EQ(others.stats().waiting, 0U);
  }

  /// By the first client, while both listen.
  Lock& hold(LockOptions options = {.ttl = 60s}) {
    options.metadata["id"] = "holder";
    options.wait = patience;
    others.acquire(name + ":listen").value().release();
    held.emplace(client.acquire(name, options).value());
    EXPECT_TRUE(this->store.all_listen(2));
    return *held;
  }

  /// A waiter of the second client, that waits for ever unless the options say how long.
  Waiter& start(const std::string& id, LockOptions options = {},
                Waiter::Then then = Waiter::Then::hold) {
    options.metadata["id"] = id;
    if (options.wait == LockOptions{}.wait) options.wait = LockOptions::forever;
    ids.push_back(id);
    return waiters.emplace_back(others, name, options, then);
  }

  /// The same; it stands in line when this returns.
  Waiter& join(const std::string& id, LockOptions options = {},
               Waiter::Then then = Waiter::Then::hold) {
    const auto before = line_length(client, name);
    Waiter& added = start(id, std::move(options), then);
    EXPECT_TRUE(eventually([&] { return line_length(client, name) == before + 1; }, patience));
    return added;
  }

  void start_over() {
    waiters.clear();
    held.reset();
    ids.clear();
  }

  /// Runs a scenario in which nobody may lose its place, again if the machine stood still so long
  /// that somebody had to.
  template <class Scenario>
  void repeat_if_evicted(const Scenario& scenario) {
    const auto watch = [this] { return EvictionWatch{{&client, &others}}; };
    repeat_if_starved(watch, [&] {
      start_over();
      scenario();
    });
  }

  /// Who of those that have had the lock had it when.
  Ids order_of_grants() {
    std::map<FencingToken, std::string> by_token;  // tokens grow from grant to grant
    for (std::size_t i = 0; i < waiters.size(); ++i) {
      if (waiters[i].got_it()) by_token.emplace(waiters[i].lock().token(), ids[i]);
    }
    Ids order;
    for (const auto& [token, id] : by_token) order.push_back(id);
    return order;
  }

  std::string name = name_for_test();
  std::shared_ptr<EventRecorder> events = std::make_shared<EventRecorder>();
  LockClient client{this->store.uri(), as_new_runner()};
  LockClient others{this->store.uri(), as_new_runner(events)};
  std::optional<Lock> held;
  std::deque<Waiter> waiters;
  Ids ids;  // of the waiters
};

}  // namespace leasehold::testing
