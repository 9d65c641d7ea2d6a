// Grants that meet the end of a wait, and leases that end while others wait: many times.
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <string>
#include <thread>

#include "tests/integration/locks/lock_line_fixture.hpp"
#include "tests/support/hooked_link.hpp"
#include "tests/support/starvation.hpp"

namespace leasehold::testing {
namespace {

using Clock = std::chrono::steady_clock;

/// Those that take long.
class LockLineRaceTest : public LockLineFixture<OnEveryLockStoreOfItsOwn> {
 protected:
  /// The embedded store has no messages on the way that could be overtaken: fewer will do.
  int times(int on_redis) const { return store.is_redis() ? on_redis : on_redis / 4; }
};
ON_EVERY_STORE(LockLineRaceTest);

/// Of leases that nobody renews: the shortest time after the end of one until the next in line has
/// the lock. The shortest, because it is the machine that makes the others longer; no more than is
/// needed to get below `enough`.
template <class TestCase>
std::chrono::milliseconds shortest_delay(TestCase& test, std::chrono::milliseconds ttl,
                                         std::chrono::milliseconds enough) {
  auto shortest = std::chrono::milliseconds::max();
  for (int i = 0; i < 8 && shortest >= enough; ++i) {
    test.hold({.ttl = ttl, .heartbeat = Heartbeat::manual});
    Waiter next{test.others, test.name, {.wait = patience}};
    shortest = std::min(shortest, next.lock().took_over_from()->heartbeat_age - ttl);
  }
  return shortest;
}

TEST_P(LockLineRaceTest, EndOfALeaseIsNotSeenBySlowPollingOnly) {
  // One that ends before the line is looked after for the first time, a second after the waiter
  // came, and one that ends between two such looks.
  for (const auto ttl : {300ms, 1'300ms}) {
    const auto delay = shortest_delay(*this, ttl, 500ms);
    EXPECT_GE(delay, 0ms);
    EXPECT_LT(delay, 500ms) << ttl.count();
  }
}

/// The race of a grant with the end of the wait, many times. `race` releases the lock and ends the
/// wait of a waiter, and is given how much later than the release the wait should end: more after a
/// wait that ended too early, less, even before it, after one that ended too late. So however slow
/// the machine is, most attempts are close to the moment in which the one turns into the other.
template <class Race>
void race_grant_with(LockClient& client, LockClient& others, const std::string& name, int times,
                     const Race& race) {
  int granted = 0;
  int refused = 0;
  std::chrono::microseconds later{100};
  for (int i = 0; i < times; ++i) {
    Lock lock = client.acquire(name, {.on_conflict = OnConflict::fail_fast}).value();
    const bool in_time = race(lock, later);
    ++(in_time ? granted : refused);
    const auto step = std::max<std::chrono::microseconds>(std::chrono::abs(later) / 4, 20us);
    later += in_time ? -step : step;
    // Nobody has the lock now, and nobody waits: so it is to be had, at once.
    const auto after = client.acquire(name, {.on_conflict = OnConflict::fail_fast});
    ASSERT_TRUE(after) << "attempt " << i << ": a grant was not passed on";
  }
  EXPECT_EQ(others.stats().held, 0U);
  // Both have happened, or it was no race.
  EXPECT_GT(granted, 0);
  EXPECT_GT(refused, 0);
}

TEST_P(LockLineRaceTest, GrantToOneThatIsBeingCancelledIsPassedOn) {
  hold().release();
  race_grant_with(client, others, name, times(1'000),
                  [&](Lock& lock, std::chrono::microseconds later) {
                    Waiter waiter{others, name, {.wait = LockOptions::forever}};
                    while (line_length(client, name) == 0) {
                    }
                    const auto spin = [](std::chrono::microseconds time) {
                      const auto until = Clock::now() + time;
                      while (Clock::now() < until) {
                      }
                    };
                    std::latch both{2};
                    std::jthread canceller([&] {
                      both.arrive_and_wait();
                      spin(later);
                      waiter.cancel();
                    });
                    both.arrive_and_wait();
                    spin(-later);
                    lock.release();
                    canceller.join();
                    return waiter.got_it();
                  });
}

TEST_P(LockLineRaceTest, GrantToOneWhoseTimeIsUpIsPassedOn) {
  hold().release();
  race_grant_with(client, others, name, times(150),
                  [&](Lock& lock, std::chrono::microseconds later) {
                    const auto wait = 20ms;
                    const auto started = Clock::now();
                    Waiter waiter{others, name, {.wait = wait}};
                    std::this_thread::sleep_until(started + wait - later);
                    lock.release();
                    return waiter.got_it();
                  });
}

TEST_P(LockLineRaceTest, GrantThatIsPassedOnReachesTheNextAtOnce) {
  hold().release();
  const auto evicted = [this] {
    return client.stats().waiters_evicted + others.stats().waiters_evicted;
  };
  // Nobody loses its turn, unless it gets no time for most of the second that a turn lasts.
  store.repeat_if_stalled(500ms, [&] {
    const auto before = evicted();
    for (int i = 0; i < times(200); ++i) {
      Lock lock = client.acquire(name, {.on_conflict = OnConflict::fail_fast}).value();
      Waiter first{others, name, {.wait = LockOptions::forever}};
      while (line_length(client, name) == 0) {
      }
      Waiter second{others, name, {.metadata = {{"id", "second"}}, .wait = LockOptions::forever}};
      while (line_length(client, name) == 1) {
      }
      std::jthread canceller([&] { first.cancel(); });
      lock.release();
      canceller.join();
      if (first.got_it()) first.release();
      // No time has to pass: whoever let go of it has handed it on.
      ASSERT_EQ(holder_of(client, name), "second") << "attempt " << i;
      second.release();
    }
    EXPECT_EQ(evicted(), before);
  });
}

// One that does not hear when its turn comes would be passed over, and those behind it served
// first.
TEST(LockLineStartTest, ProcessJoinsTheLineOnlyWhenItHears) {
  repeat_if_stalled(200ms, [] {
    const RedisServer redis;
    LockClient holder{redis.uri(), as_new_runner()};
    Lock lock = holder.acquire("lock").value();
    auto link = std::make_shared<HookedLink>(redis.uri());
    const Signal may_listen;
    link->subscribes_after = may_listen;
    LockClient client{link, as_new_runner()};
    Waiter waiter{client, "lock", {.wait = LockOptions::forever}};
    const auto has_joined = [&] { return line_length(holder, "lock") == 1; };
    EXPECT_FALSE(eventually(has_joined, 100ms));
    may_listen.set();
    EXPECT_TRUE(eventually(has_joined, patience));
    EXPECT_TRUE(all_listen(redis, 2));
    lock.release();
    EXPECT_TRUE(waiter.got_it());
    EXPECT_EQ(holder.stats().waiters_evicted, 0U);
  });
}

// It may be forbidden to.
TEST(LockLineStartTest, ProcessThatNeverHearsJoinsAllTheSame) {
  const RedisServer redis;
  LockClient holder{redis.uri(), as_new_runner()};
  Lock lock = holder.acquire("lock").value();
  auto link = std::make_shared<HookedLink>(redis.uri());
  const Signal never;
  link->subscribes_after = never;
  LockClient client{link, as_new_runner()};
  Waiter waiter{client, "lock", {.wait = LockOptions::forever}};
  EXPECT_TRUE(eventually([&] { return line_length(holder, "lock") == 1; }, patience));
  lock.release();
  EXPECT_TRUE(waiter.got_it());
  never.set();  // lets the thread of the link end
}

}  // namespace
}  // namespace leasehold::testing
