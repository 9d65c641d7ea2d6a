// Heartbeats keep a lock beyond its ttl; without them it is lost. max_hold ends it in any case.
#include <gtest/gtest.h>

#include "tests/integration/locks/lock_fixture.hpp"

namespace leasehold::testing {
namespace {

class LockHeartbeatTest : public LockFixture<OnEveryLockStore> {};
ON_EVERY_STORE(LockHeartbeatTest);

TEST_P(LockHeartbeatTest, HeartbeatsKeepItBeyondItsTtl) {
  store.repeat_if_heartbeats_starved(1'500ms, [&] {
    const auto before = events->count(LockEventType::heartbeat);
    Lock lock = client.acquire(name, {.ttl = 1'500ms}).value();
    EXPECT_EQ(client.stats().heartbeats_active, 1U);
    const auto first = lock.valid_until();
    EXPECT_TRUE(events->wait_for(LockEventType::heartbeat, before + 4));
    EXPECT_TRUE(lock.valid());
    EXPECT_GT(lock.valid_until(), first);
    EXPECT_FALSE(other.acquire(name, {.on_conflict = OnConflict::fail_fast}));
    EXPECT_GE(client.stats().heartbeats, before + 4);
    EXPECT_EQ(lock.release(), Release::done);
    EXPECT_EQ(client.stats().heartbeats_active, 0U);
  });
}

TEST_P(LockHeartbeatTest, HeartbeatsComeAsOftenAsAskedFor) {
  // By itself the first one would come after 20 minutes.
  Lock lock = client.acquire(name, {.ttl = 1h, .heartbeat_every = 50ms}).value();
  EXPECT_TRUE(events->wait_for(LockEventType::heartbeat, 3));
  EXPECT_GE(client.status(name)->renewals, 3U);
  EXPECT_EQ(lock.release(), Release::done);
}

TEST_P(LockHeartbeatTest, ManualHeartbeatIsUpToTheCaller) {
  Lock lock = client.acquire(name, {.ttl = 5s, .heartbeat = Heartbeat::manual}).value();
  EXPECT_EQ(client.stats().heartbeats_active, 0U);
  const auto first = lock.valid_until();
  EXPECT_EQ(lock.extend(), Ownership::held);
  EXPECT_GT(lock.valid_until(), first);
  EXPECT_EQ(client.status(name)->renewals, 1U);
}

TEST_P(LockHeartbeatTest, ManualHeartbeatThatIsMissedLosesTheLock) {
  Lock lock = client.acquire(name, {.ttl = 100ms, .heartbeat = Heartbeat::manual}).value();
  EXPECT_TRUE(wait_for_stop(lock.lost()));
  EXPECT_EQ(lock.loss_reason(), LossReason::expired);
  EXPECT_FALSE(lock.valid());
  EXPECT_EQ(lock.extend(), Ownership::lost);
  EXPECT_EQ(lock.release(), Release::was_lost);
  EXPECT_EQ(client.stats().lost, 1U);
  EXPECT_EQ(client.stats().held, 0U);
}

TEST_P(LockHeartbeatTest, LossIsFinal) {
  Lock lock = client.acquire(name, {.ttl = 50ms, .heartbeat = Heartbeat::manual}).value();
  ASSERT_TRUE(wait_for_stop(lock.lost()));
  ASSERT_TRUE(eventually([&] { return client.status(name)->state == LockState::stale; }));
  // It is free, and it was ours: still nobody takes it again unasked.
  EXPECT_EQ(lock.extend(), Ownership::lost);
  EXPECT_EQ(client.status(name)->state, LockState::stale);
  EXPECT_EQ(lock.release(), Release::was_lost);
  EXPECT_EQ(client.cleanup_stale(name).size(), 1U);
}

TEST_P(LockHeartbeatTest, ExtendAsksEvenRightAfterTheGrant) {
  Lock lock = client.acquire(name, {.heartbeat = Heartbeat::manual}).value();
  EXPECT_TRUE(client.force_release(name));
  EXPECT_EQ(lock.extend(), Ownership::lost);
  EXPECT_EQ(lock.loss_reason(), LossReason::vanished);
}

TEST_P(LockHeartbeatTest, MaxHoldEndsALockThatIsKeptAlive) {
  store.repeat_if_heartbeats_starved(1'500ms, [&] {
    const auto before = client.stats().heartbeats;
    Lock lock = client.acquire(name, {.ttl = 1'500ms, .max_hold = 2'500ms}).value();
    EXPECT_TRUE(wait_for_stop(lock.lost()));
    EXPECT_EQ(lock.loss_reason(), LossReason::max_hold);
    EXPECT_GT(client.stats().heartbeats, before);
    EXPECT_EQ(client.stats().heartbeats_active, 0U);
    EXPECT_EQ(lock.release(), Release::was_lost);
    // The server's view ends with max_hold too.
    EXPECT_TRUE(other.acquire(name, {.wait = 20s})->took_over_from());
  });
}

TEST_P(LockHeartbeatTest, MaxHoldLimitsTheFirstLeaseToo) {
  Lock lock = client.acquire(name, {.ttl = 1h, .max_hold = 200ms}).value();
  EXPECT_LE(other.status(name)->remaining, 200ms);
  EXPECT_TRUE(wait_for_stop(lock.lost()));
  EXPECT_EQ(lock.loss_reason(), LossReason::max_hold);
  EXPECT_TRUE(other.acquire(name, {.wait = 20s}));
}

}  // namespace
}  // namespace leasehold::testing
