// What an acquire does when somebody else holds the lock: it is refused, waits, retries or is
// cancelled.
#include <gtest/gtest.h>

#include <future>

#include "tests/integration/locks/lock_fixture.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::steady_clock;

class LockAcquireTest : public LockFixture<OnEveryLockStore> {};
ON_EVERY_STORE(LockAcquireTest);

TEST_P(LockAcquireTest, RefusalSaysWhoHoldsItAndWhenToTryAgain) {
  const Lock lock = other.acquire(name, {.ttl = 20s, .metadata = {{"job", "nightly"}}}).value();
  auto refused = client.acquire(name, {.on_conflict = OnConflict::fail_fast});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THROW(refused.value(), std::bad_optional_access);
  const Refusal& refusal = refused.refusal();
  EXPECT_EQ(refusal.reason, RefusalReason::busy);
  EXPECT_EQ(refusal.retries, 0);
  EXPECT_GE(refusal.retry_after, 1ms);
  EXPECT_LE(refusal.retry_after, 1s);
  ASSERT_TRUE(refusal.holder);
  EXPECT_EQ(refusal.holder->name, name);
  EXPECT_EQ(refusal.holder->state, LockState::held);
  EXPECT_EQ(refusal.holder->runner, other.runner().str());
  EXPECT_EQ(refusal.holder->pid, getpid());
  EXPECT_EQ(refusal.holder->token, lock.token());
  EXPECT_EQ(refusal.holder->metadata.at("job"), "nightly");
  EXPECT_GT(refusal.holder->remaining, 0ms);
  EXPECT_LE(refusal.holder->remaining, 20s);
  EXPECT_LE(refusal.holder->age, 20s);
  EXPECT_EQ(refusal.holder->ttl, 20s);
}

TEST_P(LockAcquireTest, GrantedAcquisitionHasNoRefusal) {
  const auto granted = client.acquire(name);
  ASSERT_TRUE(granted);
  EXPECT_FALSE(granted.refusal().holder);
}

TEST_P(LockAcquireTest, WaitGetsTheLockOnceItIsReleased) {
  Lock lock = other.acquire(name).value();
  auto waiter = std::async(std::launch::async, [&] {
    return client.acquire(name, {.wait = LockOptions::forever}).value();
  });
  ASSERT_TRUE(events->wait_for(LockEventType::contended));
  EXPECT_EQ(client.stats().waiting, 1U);
  const FencingToken first = lock.token();
  EXPECT_EQ(lock.release(), Release::done);
  const Lock got = waiter.get();
  EXPECT_GT(got.token(), first);
  EXPECT_EQ(got.retries(), 0);  // it stood in line
  EXPECT_FALSE(got.took_over_from());
  EXPECT_EQ(client.stats().waiting, 0U);
  EXPECT_EQ(events->count(LockEventType::contended), 1U);
}

TEST_P(LockAcquireTest, WaitEndsAfterItsTime) {
  const Lock lock = other.acquire(name).value();
  const auto before = steady_clock::now();
  const auto refused = client.acquire(name, {.wait = 100ms});
  EXPECT_GE(steady_clock::now() - before, 100ms);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.refusal().reason, RefusalReason::busy);
}

TEST_P(LockAcquireTest, NoTimeToWaitMeansOneTry) {
  const Lock lock = other.acquire(name).value();
  EXPECT_EQ(client.acquire(name, {.wait = 0ms}).refusal().retries, 0);
  EXPECT_EQ(
      client.acquire(name, {.wait = 1h, .on_conflict = OnConflict::fail_fast}).refusal().retries,
      0);
  EXPECT_EQ(client.stats().retries, 0U);
}

TEST_P(LockAcquireTest, RetryTriesAsOftenAsAllowedAndPausesLongerEachTime) {
  const Lock lock = other.acquire(name).value();
  const auto before = steady_clock::now();
  const auto refused = client.acquire(
      name, {.wait = 1h, .on_conflict = OnConflict::retry, .retry = {.retries = 3, .first = 40ms}});
  // 40 + 80 + 160 ms, each shortened by a half at most.
  EXPECT_GE(steady_clock::now() - before, 140ms);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.refusal().retries, 3);
  EXPECT_EQ(client.stats().retries, 3U);
  EXPECT_EQ(events->count(LockEventType::retried), 3U);
}

TEST_P(LockAcquireTest, RetryPausesNoLongerThanItsBound) {
  const Lock lock = other.acquire(name).value();
  // Unbounded, 40 pauses that double would take longer than the universe is old.
  const auto refused =
      client.acquire(name, {.wait = LockOptions::forever,
                            .on_conflict = OnConflict::retry,
                            .retry = {.retries = 40, .first = 1ms, .factor = 100, .longest = 2ms}});
  EXPECT_EQ(refused.refusal().retries, 40);
}

TEST_P(LockAcquireTest, RetryEndsWithTheTimeToWait) {
  const Lock lock = other.acquire(name).value();
  const auto before = steady_clock::now();
  const auto refused = client.acquire(name, {.wait = 100ms,
                                             .on_conflict = OnConflict::retry,
                                             .retry = {.retries = 1'000'000, .first = 10ms}});
  EXPECT_GE(steady_clock::now() - before, 100ms);
  EXPECT_FALSE(refused.has_value());
  EXPECT_LT(refused.refusal().retries, 1'000);
}

TEST_P(LockAcquireTest, RetryGetsALockThatIsReleasedMeanwhile) {
  Lock lock = other.acquire(name).value();
  auto retrying = std::async(std::launch::async, [&] {
    return client
        .acquire(name, {.wait = LockOptions::forever,
                        .on_conflict = OnConflict::retry,
                        .retry = {.retries = 1'000'000, .first = 1ms, .longest = 5ms}})
        .value();
  });
  ASSERT_TRUE(events->wait_for(LockEventType::retried, 2));
  lock.release();
  EXPECT_GE(retrying.get().retries(), 2);
}

TEST_P(LockAcquireTest, CancelledBeforeItBeganAsksNobody) {
  stop.request_stop();
  const auto refused = client.acquire(name, {}, stop.get_token());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.refusal().reason, RefusalReason::cancelled);
  EXPECT_FALSE(refused.refusal().holder);
  EXPECT_FALSE(store.has_token(name));
}

TEST_P(LockAcquireTest, CancelledWhileWaitingReturnsAtOnce) {
  const Lock lock = other.acquire(name).value();
  auto waiter = std::async(std::launch::async, [&] {
    return client.acquire(name, {.wait = LockOptions::forever}, stop.get_token());
  });
  ASSERT_TRUE(events->wait_for(LockEventType::contended));
  stop.request_stop();
  const auto refused = waiter.get();
  EXPECT_EQ(refused.refusal().reason, RefusalReason::cancelled);
  EXPECT_EQ(refused.refusal().holder->runner, other.runner().str());
  EXPECT_EQ(client.stats().failures, 1U);
}

}  // namespace
}  // namespace leasehold::testing
