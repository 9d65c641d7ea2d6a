// Locks that are taken from their holders: from silent ones, by force, and by an operator.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/integration/locks/lock_fixture.hpp"

namespace leasehold::testing {
namespace {

class LockTakeoverTest : public LockFixture<OnEveryLockStore> {};
ON_EVERY_STORE(LockTakeoverTest);

TEST_P(LockTakeoverTest, StealStaleSparesAHolderThatSendsHeartbeats) {
  store.repeat_if_heartbeats_starved(3s, [&] {
    Lock lock = other.acquire(name, {.ttl = 3s}).value();
    // Without heartbeats it could be robbed after two of them, 2 s.
    const auto refused = client.acquire(
        name, {.wait = 3s, .on_conflict = OnConflict::steal_stale, .steal_after = 1ms});
    EXPECT_FALSE(refused.has_value());
    EXPECT_TRUE(lock.valid());
    EXPECT_EQ(lock.extend(), Ownership::held);
  });
}

TEST_P(LockTakeoverTest, HolderThatPromisedNoHeartbeatsIsNotRobbedBeforeItsTtlEnds) {
  Lock lock = other.acquire(name, {.ttl = 30s, .heartbeat = Heartbeat::manual}).value();
  store.shorten_lease(name, 25s);
  EXPECT_FALSE(client.acquire(
      name, {.wait = 0ms, .on_conflict = OnConflict::steal_stale, .steal_after = 1ms}));
}

TEST_P(LockTakeoverTest, StealStaleTakesFromASilentHolderWhoseTokenIsOutranked) {
  std::atomic<LossReason> told = LossReason::none;
  const Signal called;
  Lock lock = other
                  .acquire(name, {.metadata = {{"k", "v"}},
                                  .on_lost =
                                      [&told, called](const LockLoss& loss) {
                                        told = loss.reason;
                                        called.set();
                                      }})
                  .value();
  store.shorten_lease(name, 25s);  // as if it had missed two of its heartbeats
  EXPECT_FALSE(client.acquire(
      name, {.wait = 0ms, .on_conflict = OnConflict::steal_stale, .steal_after = 1h}));
  Lock stolen =
      client
          .acquire(name, {.wait = 20s, .on_conflict = OnConflict::steal_stale, .steal_after = 50ms})
          .value();
  EXPECT_GT(stolen.token(), lock.token());
  ASSERT_TRUE(stolen.took_over_from());
  EXPECT_EQ(stolen.took_over_from()->runner, other.runner().str());
  EXPECT_EQ(stolen.took_over_from()->metadata.at("k"), "v");
  EXPECT_EQ(stolen.took_over_from()->state, LockState::held);
  EXPECT_GE(stolen.took_over_from()->heartbeat_age, 50ms);
  EXPECT_EQ(client.stats().takeovers, 1U);
  EXPECT_EQ(client.stats().stale_seen, 0U);

  EXPECT_EQ(lock.extend(), Ownership::lost);
  EXPECT_FALSE(lock.valid());
  EXPECT_EQ(lock.loss_reason(), LossReason::taken);
  EXPECT_TRUE(wait_for_stop(lock.lost()));
  EXPECT_TRUE(called.wait());
  EXPECT_EQ(told, LossReason::taken);
  EXPECT_EQ(lock.release(), Release::was_lost);
  EXPECT_EQ(stolen.extend(), Ownership::held);
}

TEST_P(LockTakeoverTest, StealStaleSparesAHolderThatMayNotSendAnotherHeartbeat) {
  // A heartbeat may be late by some 300 ms at most.
  store.repeat_if_stalled(100ms, [&] {
    // max_hold ends the lease of the grant itself, or that of the first heartbeat.
    for (const auto max_hold : {900ms, 1'300ms}) {
      const Lock lock = other.acquire(name, {.ttl = 900ms, .max_hold = max_hold}).value();
      const Lock next = client
                            .acquire(name, {.wait = patience,
                                            .on_conflict = OnConflict::steal_stale,
                                            .steal_after = 1ms})
                            .value();
      EXPECT_EQ(next.took_over_from()->state, LockState::stale);
      EXPECT_FALSE(lock.valid());
    }
  });
}

TEST_P(LockTakeoverTest, ForceTakesFromALivingHolderAndTellsIt) {
  Lock lock = other.acquire(name, {.ttl = 30s}).value();
  Lock forced = client.acquire(name, {.wait = 0ms, .on_conflict = OnConflict::force}).value();
  EXPECT_GT(forced.token(), lock.token());
  EXPECT_EQ(forced.took_over_from()->runner, other.runner().str());
  EXPECT_EQ(client.stats().forced, 1U);
  EXPECT_TRUE(wait_for_stop(lock.lost()));
  EXPECT_EQ(lock.loss_reason(), LossReason::taken);
  EXPECT_EQ(lock.release(), Release::was_lost);
  EXPECT_EQ(forced.extend(), Ownership::held);
}

TEST_P(LockTakeoverTest, ForceReleaseFreesTheLockAndTellsItsHolder) {
  EXPECT_FALSE(other.force_release(name));
  EXPECT_EQ(other.stats().forced, 0U);
  Lock lock = client.acquire(name, {.ttl = 30s}).value();
  const auto record = other.force_release(name);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->runner, client.runner().str());
  EXPECT_EQ(record->token, lock.token());
  EXPECT_EQ(other.stats().forced, 1U);
  EXPECT_FALSE(other.status(name));
  EXPECT_TRUE(wait_for_stop(lock.lost()));
  EXPECT_EQ(lock.loss_reason(), LossReason::vanished);
  EXPECT_FALSE(other.status(name));
  EXPECT_EQ(lock.release(), Release::was_lost);
}

}  // namespace
}  // namespace leasehold::testing
