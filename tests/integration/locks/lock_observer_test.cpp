// Statistics, and what an observer is told.
#include <gtest/gtest.h>

#include <vector>

#include "tests/integration/locks/lock_fixture.hpp"

namespace leasehold::testing {
namespace {

class LockObserverTest : public LockFixture<OnEveryLockStore> {};
ON_EVERY_STORE(LockObserverTest);

TEST_P(LockObserverTest, StatisticsCountWhatHappened) {
  {
    const Lock lock = client.acquire(name).value();
    EXPECT_FALSE(client.acquire(name, {.on_conflict = OnConflict::fail_fast}));
    EXPECT_EQ(client.stats().held, 1U);
  }
  const LockStats stats = client.stats();
  EXPECT_EQ(stats.acquired, 1U);
  EXPECT_EQ(stats.released, 1U);
  EXPECT_EQ(stats.contended, 1U);
  EXPECT_EQ(stats.failures, 1U);
  EXPECT_EQ(stats.lost, 0U);
  EXPECT_EQ(stats.held, 0U);
  EXPECT_EQ(stats.waiting, 0U);
  EXPECT_EQ(stats.time_to_acquire.count, 1U);
  EXPECT_EQ(stats.time_held.count, 1U);
  EXPECT_GT(stats.time_held.sum.count(), 0);
}

TEST_P(LockObserverTest, ObserverIsToldInOrder) {
  using Type = LockEventType;
  Lock lock = client.acquire(name).value();
  EXPECT_FALSE(client.acquire(name, {.on_conflict = OnConflict::fail_fast}));
  lock.extend();
  lock.release();
  EXPECT_EQ(events->types(),
            (std::vector{Type::acquiring, Type::acquired, Type::acquiring, Type::contended,
                         Type::failed, Type::heartbeat, Type::releasing, Type::released}));
  const auto entries = events->entries();
  for (const auto& entry : entries) EXPECT_EQ(entry.name, name);
  EXPECT_EQ(entries[1].token, lock.token());
  EXPECT_GT(entries[1].elapsed.count(), 0);
  EXPECT_GT(entries.back().elapsed.count(), 0);  // held
}

TEST_P(LockObserverTest, ObserverIsToldOfALoss) {
  Lock lock = client.acquire(name).value();
  client.force_release(name);
  ASSERT_TRUE(events->wait_for(LockEventType::lost));
  EXPECT_EQ(lock.extend(), Ownership::lost);
  EXPECT_EQ(lock.release(), Release::was_lost);
  for (const auto& entry : events->entries()) {
    if (entry.type != LockEventType::lost) continue;
    EXPECT_EQ(entry.reason, LossReason::vanished);
    EXPECT_EQ(entry.token, lock.token());
  }
  EXPECT_EQ(events->types().back(), LockEventType::releasing);
}

}  // namespace
}  // namespace leasehold::testing
