// What can be seen of the line: who waits, and what the metrics count.
#include <gtest/gtest.h>

#include "tests/integration/locks/lock_line_fixture.hpp"

namespace leasehold::testing {
namespace {

using Clock = std::chrono::steady_clock;

class LockLineStatusTest : public LockLineFixture<OnEveryLockStoreOfItsOwn> {};
ON_EVERY_STORE(LockLineStatusTest);

TEST_P(LockLineStatusTest, StatusShowsWhoWaitsSinceWhenAndHowUrgently) {
  repeat_if_evicted([&] {
    const Lock& lock = hold();
    EXPECT_TRUE(lock.waiters().empty());
    const auto before = store.now();
    join("a");
    const auto between = store.now();
    join("b", {.priority = 3});
    const auto after = store.now();

    const LockRecord record = client.status(name).value();
    EXPECT_EQ(record.waiter_count, 2U);
    for (const auto& line : {record.waiters, lock.waiters()}) {
      ASSERT_EQ(line.size(), 2U);
      for (const LockWaiter& waiter : line) {
        EXPECT_EQ(waiter.runner, others.runner().str());
        EXPECT_EQ(waiter.pid, getpid());
        EXPECT_EQ(waiter.host, record.host);
        EXPECT_EQ(waiter.kind, LockKind::exclusive);
      }
      EXPECT_EQ(line[0].priority, 3);
      EXPECT_EQ(line[1].priority, 0);
      // The server notes it in whole milliseconds.
      EXPECT_GE(line[1].since, before - 1ms);
      EXPECT_LE(line[1].since, between);
      EXPECT_GE(line[0].since, between - 1ms);
      EXPECT_LE(line[0].since, after);
    }
    held->release();
    waiters[1].release();
    waiters[0].release();
  });
}

TEST_P(LockLineStatusTest, MetricsCountWaitersHandoversAndTheTimeWaited) {
  repeat_if_evicted([&] {
    hold();
    const LockStats before = others.stats();
    const auto handovers = events->count(LockEventType::handover);
    const auto queued = events->count(LockEventType::queued);
    const auto started = Clock::now();
    join("a");
    join("b");
    Waiter& refused = start("c", {.wait = 50ms});
    EXPECT_FALSE(refused.got_it());
    EXPECT_EQ(others.stats().waiting, 2U);
    EXPECT_EQ(others.stats().handovers, before.handovers);
    held->release();
    waiters[0].release();
    waiters[1].release();
    const auto most = Clock::now() - started;
    const LockStats stats = others.stats();
    EXPECT_EQ(stats.waiting, 0U);
    EXPECT_EQ(stats.contended, before.contended + 3);
    EXPECT_EQ(stats.handovers, before.handovers + 2);
    EXPECT_EQ(stats.time_waited.count, before.time_waited.count + 2);
    // Both have waited through the 50 ms of the third.
    EXPECT_GE(stats.time_waited.sum - before.time_waited.sum, 100ms);
    EXPECT_LE(stats.time_waited.sum - before.time_waited.sum, 2 * most);
    EXPECT_EQ(stats.waiters_evicted, before.waiters_evicted);
    EXPECT_GE(events->count(LockEventType::queued), queued + 2);
    EXPECT_EQ(events->count(LockEventType::handover), handovers + 2);
  });
}

}  // namespace
}  // namespace leasehold::testing
