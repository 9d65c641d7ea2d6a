// Waiters that leave the line: the others keep their order and wait no longer for it.
#include <gtest/gtest.h>

#include <vector>

#include "tests/integration/locks/lock_line_fixture.hpp"

namespace leasehold::testing {
namespace {

class LockLineLeaveTest : public LockLineFixture<OnEveryLockStoreOfItsOwn> {};
ON_EVERY_STORE(LockLineLeaveTest);

TEST_P(LockLineLeaveTest, CancelledWaiterLeavesAtOnce) {
  hold();
  Waiter& waiter = join("a");
  waiter.cancel();
  EXPECT_EQ(waiter.refusal().reason, RefusalReason::cancelled);
  EXPECT_EQ(line_length(client, name), 0U);
  held->release();
  store.expect_nothing_left();
}

TEST_P(LockLineLeaveTest, WaiterWhoseTimeIsUpLeavesAtOnce) {
  hold();
  Waiter& waiter = start("a", {.wait = 100ms});
  EXPECT_EQ(waiter.refusal().reason, RefusalReason::busy);
  EXPECT_EQ(waiter.refusal().holder->metadata.at("id"), "holder");
  EXPECT_EQ(line_length(client, name), 0U);
  held->release();
  store.expect_nothing_left();
}

/// Time-outs of some waiters leave the others alone. Six situations in which fair locks that
/// keep a time-out for each place in the line are known to go wrong.
class LockLineDriftTest : public LockLineFixture<OnEveryLockStoreOfItsOwn> {};
ON_EVERY_STORE(LockLineDriftTest);

TEST_P(LockLineDriftTest, TimeOutsInAnyOrderLeaveTheOthersInTheirOrder) {
  repeat_if_evicted([&] {
    hold();
    const std::vector<std::chrono::milliseconds> waits{350ms, 0ms, 250ms, 150ms, 0ms, 200ms, 0ms};
    for (std::size_t i = 0; i < waits.size(); ++i) {
      start(std::to_string(i),
            {.wait = waits[i] == 0ms ? LockOptions::forever : waits[i] + 3'500ms, .priority = 0});
      ASSERT_TRUE(eventually([&] { return line_length(client, name) == i + 1; }, patience));
    }
    for (const std::size_t gone : {0U, 2U, 3U, 5U}) EXPECT_FALSE(waiters[gone].got_it());
    EXPECT_EQ(line_length(client, name), 3U);
    held->release();
    for (const std::size_t next : {1U, 4U, 6U}) {
      EXPECT_EQ(holder_of(client, name), std::to_string(next));
      waiters[next].release();
    }
  });
}

TEST_P(LockLineDriftTest, AfterManyAbandonedWaitersTheLockIsToBeHadAtOnce) {
  hold();
  for (int i = 0; i < 40; ++i) start(std::to_string(i), {.wait = 50ms});
  for (Waiter& waiter : waiters) EXPECT_FALSE(waiter.got_it());
  held->release();
  EXPECT_TRUE(client.acquire(name, {.on_conflict = OnConflict::fail_fast}));
}

TEST_P(LockLineDriftTest, TimeOutInTheMiddleDoesNotDelayThoseBehind) {
  repeat_if_evicted([&] {
    hold();
    join("first");
    Waiter& middle = start("middle", {.wait = 100ms});
    EXPECT_FALSE(middle.got_it());
    join("last");
    Waiter& middle_again = start("middle", {.wait = 100ms});
    EXPECT_FALSE(middle_again.got_it());
    held->release();
    EXPECT_EQ(holder_of(client, name), "first");
    waiters[0].release();
    EXPECT_EQ(holder_of(client, name), "last");
    waiters[2].release();
  });
}

TEST_P(LockLineDriftTest, HeadTimesOutWhileTheHolderRenewsAndTheNextWaitsOn) {
  store.repeat_if_heartbeats_starved(3s, [&] {
    start_over();
    hold({.ttl = 3s});
    Waiter& head = start("head", {.wait = 4s});
    ASSERT_TRUE(eventually([&] { return line_length(client, name) == 1; }, patience));
    join("next");
    EXPECT_FALSE(head.got_it());
    // The lease has been renewed beyond its first end: it is not up for those who wait.
    EXPECT_EQ(holder_of(client, name), "holder");
    EXPECT_TRUE(held->valid());
    EXPECT_EQ(line_length(client, name), 1U);
    held->release();
    EXPECT_EQ(holder_of(client, name), "next");
    waiters[1].release();
  });
}

TEST_P(LockLineDriftTest, RepeatedShortTriesNeitherDelayTheOthersNorAddUp) {
  repeat_if_evicted([&] {
    hold();
    join("patient");
    for (int i = 0; i < 100; ++i) {
      EXPECT_FALSE(client.acquire(name, {.wait = 2ms, .priority = i % 3 - 1}));
    }
    EXPECT_EQ(line_length(client, name), 1U);
    join("after");
    held->release();
    EXPECT_EQ(holder_of(client, name), "patient");
    waiters[0].release();
    EXPECT_EQ(holder_of(client, name), "after");
    waiters[1].release();
  });
}

}  // namespace
}  // namespace leasehold::testing
