// L6: an acquire that is cancelled, at whatever moment, leaves nothing behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <random>
#include <thread>

#include "tests/support/fault_proxy.hpp"
#include "tests/support/lock_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::steady_clock;

template <class Store>
class LockCancelFixture : public Store {
 protected:
  void TearDown() override { this->store.expect_nothing_left(); }

  /// An acquire that is cancelled. A lock that was granted first is released, and that is true.
  bool try_and_cancel(LockClient& client, const std::string& name, const std::stop_token& stop) {
    auto acquired = client.acquire(name, {.wait = LockOptions::forever}, stop);
    if (acquired) {
      ++granted;
      EXPECT_EQ(acquired->release(), Release::done);
      return true;
    }
    ++cancelled;
    EXPECT_EQ(acquired.refusal().reason, RefusalReason::cancelled);
    return false;
  }

  /// Acquires and cancels after a random time of up to `longest`, `times` times.
  void cancel_at_random(LockClient& client, const std::string& name, int times,
                        microseconds longest, unsigned seed) {
    std::mt19937 random{seed};
    std::uniform_int_distribution<microseconds::rep> pause{0, longest.count()};
    for (int i = 0; i < times; ++i) {
      std::stop_source stop;
      // The random moment itself, not a wait for something to happen.
      std::jthread canceller{[&, after = microseconds{pause(random)}] {
        spin(after);
        stop.request_stop();
      }};
      try_and_cancel(client, name, stop.get_token());
    }
  }

  static void spin(microseconds time) {
    const auto until = steady_clock::now() + time;
    while (steady_clock::now() < until) std::this_thread::yield();
  }

  /// Whether the key of `name` exists but is not of `holder`.
  bool leaked(const std::string& name, LockClient& holder) {
    const auto record = holder.status(name);
    return record && record->runner != holder.runner().str();
  }

  std::atomic<int> granted = 0;
  std::atomic<int> cancelled = 0;
};

class LockCancelTest : public LockCancelFixture<OnEveryLockStoreOfItsOwn> {};
ON_EVERY_STORE(LockCancelTest);

class RedisLockCancelTest : public LockCancelFixture<OnARedisOfItsOwn> {
 protected:
  RedisEndpoint& redis = store.redis();
};

TEST_P(LockCancelTest, UncontendedAThousandTimes) {
  LockClient client{store.uri(), as_new_runner()};
  LockClient observer{store.uri(), as_new_runner()};
  client.acquire("lock");
  // Sooner after a grant, later after one that was cancelled: however fast the store is, most are
  // close to the moment in which the one turns into the other.
  microseconds later{0};
  for (int i = 0; i < 1'000; ++i) {
    std::stop_source stop;
    std::latch both{2};
    std::jthread canceller{[&] {
      both.arrive_and_wait();
      spin(later);
      stop.request_stop();
    }};
    both.arrive_and_wait();
    spin(-later);
    const bool in_time = try_and_cancel(client, "lock", stop.get_token());
    canceller.join();
    const auto step = std::max<microseconds>(std::chrono::abs(later) / 4, 2us);
    later += in_time ? -step : step;
    ASSERT_FALSE(observer.status("lock")) << "attempt " << i;
  }
  EXPECT_EQ(granted + cancelled, 1'000);
  // The moments were well chosen: both ends were met.
  EXPECT_GT(granted, 0);
  EXPECT_GT(cancelled, 0);
  EXPECT_EQ(client.stats().held, 0U);
  EXPECT_EQ(client.stats().heartbeats_active, 0U);
}

TEST_P(LockCancelTest, ContendedAThousandTimes) {
  LockClient holder{store.uri(), as_new_runner()};
  LockClient client{store.uri(), as_new_runner()};
  std::stop_source done;
  std::jthread coming_and_going{[&] {
    while (!done.stop_requested()) {
      const Lock lock = holder.acquire("lock", {.wait = LockOptions::forever}).value();
      std::this_thread::yield();
    }
  }};
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] { cancel_at_random(client, "lock", 250, 4ms, t); });
    }
  }
  // The holder still comes and goes: whatever it does not hold itself is a leak.
  EXPECT_FALSE(leaked("lock", holder));
  done.request_stop();
  coming_and_going.join();
  EXPECT_FALSE(holder.status("lock"));
  EXPECT_EQ(granted + cancelled, 1'000);
  EXPECT_GT(cancelled, 0);
  EXPECT_EQ(client.stats().held, 0U);
  EXPECT_EQ(client.stats().waiting, 0U);
}

TEST_P(LockCancelTest, WhileTheLockIsHeldAllTheTime) {
  LockClient holder{store.uri(), as_new_runner()};
  LockClient client{store.uri(), as_new_runner()};
  Lock lock = holder.acquire("lock").value();
  cancel_at_random(client, "lock", 200, 3ms, 1);
  EXPECT_EQ(granted, 0);
  EXPECT_EQ(lock.extend(), Ownership::held);
  EXPECT_EQ(lock.release(), Release::done);
  EXPECT_FALSE(holder.status("lock"));
}

TEST_F(RedisLockCancelTest, WhileTheRequestIsOnItsWay) {
  FaultProxy proxy{redis.port()};
  LockClient client{redis.uri_through(proxy.port()), as_new_runner()};
  LockClient observer{redis.uri(), as_new_runner()};
  client.acquire("lock");
  proxy.set_delay(2ms);
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const std::string name = "lock" + std::to_string(t);
      for (int i = 0; i < 25; ++i) {
        cancel_at_random(client, name, 5, 5ms, t * 100 + static_cast<unsigned>(i));
        EXPECT_FALSE(observer.status(name));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(granted + cancelled, 1'000);
  EXPECT_GT(cancelled, 0);
}

TEST_F(RedisLockCancelTest, AfterTheReplyToAnAttemptWasLost) {
  FaultProxy proxy{redis.port()};
  auto options = as_new_runner();
  options.redis.command_timeout = 200ms;
  LockClient client{redis.uri_through(proxy.port()), options};
  client.acquire("lock");
  for (const auto then : {FaultProxy::Then::cut, FaultProxy::Then::hang}) {
    std::stop_source stop;
    proxy.swallow_next_reply(then, fence_key_of("lock"));
    std::jthread canceller{[&] {
      EXPECT_TRUE(proxy.wait_swallowed(patience));
      stop.request_stop();
    }};
    const auto acquired = client.acquire("lock", {}, stop.get_token());
    // Cancelled, or just before that resolved by its owner: in either case it is gone at the end.
    if (acquired) continue;
    EXPECT_TRUE(eventually([&] { return !key_exists(redis, key_of("lock")); }));
  }
}

}  // namespace
}  // namespace leasehold::testing
