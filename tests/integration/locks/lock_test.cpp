// What a user sees of locks when nothing goes wrong with the store itself.
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <set>
#include <type_traits>

#include "harness/temp_dir.hpp"
#include "tests/support/lock_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

template <class Store>
class LockFixture : public Store {
 protected:
  void TearDown() override {
    // What was lost on purpose is stale as soon as the server thinks so too; nothing may be held.
    EXPECT_TRUE(eventually([&] {
      other.cleanup_stale(name + "*");
      return other.list(name + "*").empty();
    }));
  }

  /// A lock whose lease has ended without a release.
  void leave_stale(const std::string& which) {
    auto lock = client.acquire(which, {.ttl = 50ms, .heartbeat = Heartbeat::manual}).value();
    ASSERT_TRUE(wait_for_stop(lock.lost()));
    ASSERT_TRUE(eventually([&] { return client.status(which)->state == LockState::stale; }));
  }

  std::string name = name_for_test();
  std::stop_source stop;  // of the acquire
  std::shared_ptr<EventRecorder> events = std::make_shared<EventRecorder>();
  LockClient client{this->store.uri(), as_new_runner(events)};
  LockClient other{this->store.uri(), as_new_runner()};
};

class LockTest : public LockFixture<OnEveryLockStore> {};
ON_EVERY_STORE(LockTest);

/// For tests in which all data is lost.
class LockDataLossTest : public LockFixture<OnEveryLockStoreOfItsOwn> {};
ON_EVERY_STORE(LockDataLossTest);

class RedisLockTest : public LockFixture<OnRedis> {};

// --- Acquire and release -----------------------------------------------------------------------

static_assert(!std::is_copy_constructible_v<Lock> && !std::is_copy_assignable_v<Lock>);
static_assert(std::is_nothrow_move_constructible_v<Lock>);
static_assert(std::is_nothrow_move_assignable_v<Lock>);
static_assert(std::is_nothrow_destructible_v<Lock>);

TEST_P(LockTest, IsHeldUntilItIsReleased) {
  Lock lock = client.acquire(name).value();
  EXPECT_EQ(lock.name(), name);
  EXPECT_EQ(lock.owner().size(), 32U);
  EXPECT_GT(lock.token().value, 0U);
  EXPECT_TRUE(lock.valid());
  EXPECT_GT(lock.valid_until(), steady_clock::now());
  EXPECT_FALSE(lock.lost().stop_requested());
  EXPECT_EQ(lock.loss_reason(), LossReason::none);
  EXPECT_FALSE(lock.took_over_from());
  EXPECT_FALSE(lock.reentered());
  EXPECT_EQ(lock.retries(), 0);
  EXPECT_FALSE(other.acquire(name, {.on_conflict = OnConflict::fail_fast}));

  EXPECT_EQ(lock.release(), Release::done);
  EXPECT_FALSE(store.has_lock(name));
  EXPECT_FALSE(lock.valid());
  EXPECT_FALSE(lock.lost().stop_requested());
  EXPECT_TRUE(other.acquire(name, {.on_conflict = OnConflict::fail_fast}));
}

TEST_P(LockTest, ReleasingAgainGivesTheSameAnswerAndDoesNothing) {
  Lock lock = client.acquire(name).value();
  EXPECT_EQ(lock.release(), Release::done);
  Lock next = other.acquire(name).value();
  EXPECT_EQ(lock.release(), Release::done);
  EXPECT_EQ(lock.extend(), Ownership::lost);
  EXPECT_EQ(next.extend(), Ownership::held);
}

TEST_P(LockTest, DestructorReleases) {
  { const Lock lock = client.acquire(name).value(); }
  EXPECT_FALSE(store.has_lock(name));
  EXPECT_EQ(client.stats().released, 1U);
}

TEST_P(LockTest, MovesButIsReleasedOnce) {
  Lock first = client.acquire(name).value();
  const std::string owner = first.owner();
  Lock second = std::move(first);
  EXPECT_TRUE(second.valid());
  EXPECT_EQ(second.owner(), owner);
  EXPECT_EQ(second.release(), Release::done);
  Lock third = std::move(second);
  EXPECT_EQ(third.release(), Release::done);
  EXPECT_EQ(client.stats().released, 1U);
}

TEST_P(LockTest, MoveAssignmentReleasesWhatWasHeld) {
  const std::string name2 = name_for_test("second");
  Lock lock = client.acquire(name).value();
  lock = client.acquire(name2).value();
  EXPECT_FALSE(store.has_lock(name));
  EXPECT_EQ(lock.name(), name2);
  EXPECT_TRUE(lock.valid());
}

TEST_P(LockTest, OutlivesItsClient) {
  store.repeat_if_heartbeats_starved(1'500ms, [&] {
    const auto before = events->count(LockEventType::heartbeat, name);
    auto short_lived = std::make_optional<LockClient>(store.uri(), as_new_runner(events));
    Lock lock = short_lived->acquire(name, {.ttl = 1'500ms, .heartbeat_every = 100ms}).value();
    short_lived.reset();
    EXPECT_TRUE(events->wait_for(LockEventType::heartbeat, before + 2, name));
    EXPECT_TRUE(lock.valid());
    EXPECT_EQ(lock.release(), Release::done);
  });
}

TEST_P(LockTest, DifferentLocksDoNotDisturbEachOther) {
  const Lock one = client.acquire(name).value();
  const Lock two = client.acquire(name + "2").value();
  EXPECT_TRUE(one.valid() && two.valid());
  EXPECT_NE(one.owner(), two.owner());
}

// --- Refusals and strategies -------------------------------------------------------------------

TEST_P(LockTest, RefusalSaysWhoHoldsItAndWhenToTryAgain) {
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

TEST_P(LockTest, GrantedAcquisitionHasNoRefusal) {
  const auto granted = client.acquire(name);
  ASSERT_TRUE(granted);
  EXPECT_FALSE(granted.refusal().holder);
}

TEST_P(LockTest, WaitGetsTheLockOnceItIsReleased) {
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

TEST_P(LockTest, WaitEndsAfterItsTime) {
  const Lock lock = other.acquire(name).value();
  const auto before = steady_clock::now();
  const auto refused = client.acquire(name, {.wait = 100ms});
  EXPECT_GE(steady_clock::now() - before, 100ms);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.refusal().reason, RefusalReason::busy);
}

TEST_P(LockTest, NoTimeToWaitMeansOneTry) {
  const Lock lock = other.acquire(name).value();
  EXPECT_EQ(client.acquire(name, {.wait = 0ms}).refusal().retries, 0);
  EXPECT_EQ(
      client.acquire(name, {.wait = 1h, .on_conflict = OnConflict::fail_fast}).refusal().retries,
      0);
  EXPECT_EQ(client.stats().retries, 0U);
}

TEST_P(LockTest, RetryTriesAsOftenAsAllowedAndPausesLongerEachTime) {
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

TEST_P(LockTest, RetryPausesNoLongerThanItsBound) {
  const Lock lock = other.acquire(name).value();
  // Unbounded, 40 pauses that double would take longer than the universe is old.
  const auto refused =
      client.acquire(name, {.wait = LockOptions::forever,
                            .on_conflict = OnConflict::retry,
                            .retry = {.retries = 40, .first = 1ms, .factor = 100, .longest = 2ms}});
  EXPECT_EQ(refused.refusal().retries, 40);
}

TEST_P(LockTest, RetryEndsWithTheTimeToWait) {
  const Lock lock = other.acquire(name).value();
  const auto before = steady_clock::now();
  const auto refused = client.acquire(name, {.wait = 100ms,
                                             .on_conflict = OnConflict::retry,
                                             .retry = {.retries = 1'000'000, .first = 10ms}});
  EXPECT_GE(steady_clock::now() - before, 100ms);
  EXPECT_FALSE(refused.has_value());
  EXPECT_LT(refused.refusal().retries, 1'000);
}

TEST_P(LockTest, RetryGetsALockThatIsReleasedMeanwhile) {
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

TEST_P(LockTest, CancelledBeforeItBeganAsksNobody) {
  stop.request_stop();
  const auto refused = client.acquire(name, {}, stop.get_token());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.refusal().reason, RefusalReason::cancelled);
  EXPECT_FALSE(refused.refusal().holder);
  EXPECT_FALSE(store.has_token(name));
}

TEST_P(LockTest, CancelledWhileWaitingReturnsAtOnce) {
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

TEST_P(LockTest, StealStaleSparesAHolderThatSendsHeartbeats) {
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

TEST_P(LockTest, StealStaleTakesFromASilentHolderWhoseTokenIsOutranked) {
  std::atomic<LossReason> told = LossReason::none;
  const Signal called;
  Lock lock = other
                  .acquire(name, {.heartbeat = Heartbeat::manual,
                                  .metadata = {{"k", "v"}},
                                  .on_lost =
                                      [&told, called](const LockLoss& loss) {
                                        told = loss.reason;
                                        called.set();
                                      }})
                  .value();
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

TEST_P(LockTest, StealStaleSparesAHolderThatMayNotSendAnotherHeartbeat) {
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

TEST_P(LockTest, ForceTakesFromALivingHolderAndTellsIt) {
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

// --- Keep-alive --------------------------------------------------------------------------------

TEST_P(LockTest, HeartbeatsKeepItBeyondItsTtl) {
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

TEST_P(LockTest, HeartbeatsComeAsOftenAsAskedFor) {
  // By itself the first one would come after 20 minutes.
  Lock lock = client.acquire(name, {.ttl = 1h, .heartbeat_every = 50ms}).value();
  EXPECT_TRUE(events->wait_for(LockEventType::heartbeat, 3));
  EXPECT_GE(client.status(name)->renewals, 3U);
  EXPECT_EQ(lock.release(), Release::done);
}

TEST_P(LockTest, ManualHeartbeatIsUpToTheCaller) {
  Lock lock = client.acquire(name, {.ttl = 5s, .heartbeat = Heartbeat::manual}).value();
  EXPECT_EQ(client.stats().heartbeats_active, 0U);
  const auto first = lock.valid_until();
  EXPECT_EQ(lock.extend(), Ownership::held);
  EXPECT_GT(lock.valid_until(), first);
  EXPECT_EQ(client.status(name)->renewals, 1U);
}

TEST_P(LockTest, ManualHeartbeatThatIsMissedLosesTheLock) {
  Lock lock = client.acquire(name, {.ttl = 100ms, .heartbeat = Heartbeat::manual}).value();
  EXPECT_TRUE(wait_for_stop(lock.lost()));
  EXPECT_EQ(lock.loss_reason(), LossReason::expired);
  EXPECT_FALSE(lock.valid());
  EXPECT_EQ(lock.extend(), Ownership::lost);
  EXPECT_EQ(lock.release(), Release::was_lost);
  EXPECT_EQ(client.stats().lost, 1U);
  EXPECT_EQ(client.stats().held, 0U);
}

TEST_P(LockTest, LossIsFinal) {
  Lock lock = client.acquire(name, {.ttl = 50ms, .heartbeat = Heartbeat::manual}).value();
  ASSERT_TRUE(wait_for_stop(lock.lost()));
  ASSERT_TRUE(eventually([&] { return client.status(name)->state == LockState::stale; }));
  // It is free, and it was ours: still nobody takes it again unasked.
  EXPECT_EQ(lock.extend(), Ownership::lost);
  EXPECT_EQ(client.status(name)->state, LockState::stale);
  EXPECT_EQ(lock.release(), Release::was_lost);
  EXPECT_EQ(client.cleanup_stale(name).size(), 1U);
}

TEST_P(LockTest, ExtendAsksEvenRightAfterTheGrant) {
  Lock lock = client.acquire(name, {.heartbeat = Heartbeat::manual}).value();
  EXPECT_TRUE(client.force_release(name));
  EXPECT_EQ(lock.extend(), Ownership::lost);
  EXPECT_EQ(lock.loss_reason(), LossReason::vanished);
}

TEST_P(LockTest, MaxHoldEndsALockThatIsKeptAlive) {
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

TEST_P(LockTest, MaxHoldLimitsTheFirstLeaseToo) {
  Lock lock = client.acquire(name, {.ttl = 1h, .max_hold = 200ms}).value();
  EXPECT_LE(other.status(name)->remaining, 200ms);
  EXPECT_TRUE(wait_for_stop(lock.lost()));
  EXPECT_EQ(lock.loss_reason(), LossReason::max_hold);
  EXPECT_TRUE(other.acquire(name, {.wait = 20s}));
}

// --- The record --------------------------------------------------------------------------------

TEST_P(LockTest, StatusShowsTheRecord) {
  EXPECT_FALSE(other.status(name));
  const auto before = system_clock::now();
  Lock lock =
      client.acquire(name, {.ttl = 1h, .metadata = {{"job", "7"}, {"note", "\"ü\"\n"}}}).value();
  const auto after = system_clock::now();
  const LockRecord first = other.status(name).value();
  EXPECT_EQ(first.name, name);
  EXPECT_EQ(first.state, LockState::held);
  EXPECT_EQ(first.runner, client.runner().str());
  EXPECT_EQ(first.pid, getpid());
  EXPECT_FALSE(first.host.empty());
  EXPECT_TRUE(first.platform.starts_with("Linux ")) << first.platform;
  EXPECT_EQ(first.metadata,
            (std::map<std::string, std::string>{{"job", "7"}, {"note", "\"ü\"\n"}}));
  EXPECT_EQ(first.token, lock.token());
  EXPECT_EQ(first.ttl, 1h);
  EXPECT_EQ(first.renewals, 0U);
  EXPECT_GE(first.acquired_at, before - 20ms);
  EXPECT_LE(first.acquired_at, after + 20ms);
  EXPECT_EQ(first.heartbeat_at, first.acquired_at);

  ASSERT_TRUE(eventually([&] { return other.status(name)->age >= 100ms; }));
  const auto before_extend = steady_clock::now();
  EXPECT_EQ(lock.extend(), Ownership::held);
  const auto extend_took = steady_clock::now() - before_extend;
  const LockRecord second = other.status(name).value();
  EXPECT_EQ(second.renewals, 1U);
  EXPECT_EQ(second.metadata, first.metadata);
  EXPECT_EQ(second.token, lock.token());
  EXPECT_GE(second.age + 20ms, 100ms);
  EXPECT_LE(second.heartbeat_age + 100ms, second.age + 20ms);
  EXPECT_GE(second.heartbeat_at, second.acquired_at + 80ms);
  // The time of the grant does not move with heartbeats, but for what the requests took.
  EXPECT_GE(second.acquired_at, before - 20ms);
  EXPECT_LE(second.acquired_at, first.acquired_at + extend_took + 20ms);
}

TEST_F(RedisLockTest, KeyOfAnotherProgramCountsAsHeldByNobodyWeKnow) {
  shared_redis().command({"SET", key_of(name), "something else", "PX", "60000"});
  const auto refused = client.acquire(name, {.on_conflict = OnConflict::fail_fast});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.refusal().holder->runner, "");
  EXPECT_GT(refused.refusal().holder->remaining, 0ms);
  EXPECT_EQ(client.status(name)->state, LockState::held);
  EXPECT_FALSE(client.acquire(
      name, {.wait = 0ms, .on_conflict = OnConflict::steal_stale, .steal_after = 1ms}));
  EXPECT_TRUE(client.cleanup_stale(name).empty());
  EXPECT_TRUE(client.acquire(name, {.on_conflict = OnConflict::force}));
  EXPECT_FALSE(client.status(name));
}

TEST_F(RedisLockTest, KeyOfAnotherTypeIsRefusedAndLeftAlone) {
  shared_redis().command({"RPUSH", key_of(name), "a"});
  try {
    client.acquire(name);
    FAIL() << "acquired";
  } catch (const ServerRefused& error) {
    EXPECT_EQ(error.reason(), ServerRefused::Reason::wrong_type);
  }
  EXPECT_EQ(client.stats().failures, 1U);
  EXPECT_EQ(shared_redis().command({"LLEN", key_of(name)}).integer, 1);
  shared_redis().command({"DEL", key_of(name)});
}

TEST_F(RedisLockTest, ScriptThatFailsHalfWayLeavesNoLock) {
  shared_redis().command({"SET", fence_key_of(name), "not a number", "PX", "60000"});
  EXPECT_THROW(client.acquire(name), ServerRefused);
  EXPECT_FALSE(store.has_lock(name));
}

// --- Re-entry ----------------------------------------------------------------------------------

TEST_P(LockTest, ReentryIsRefusedUnlessAskedFor) {
  const Lock lock = client.acquire(name, {.reentry = Reentry::allowed}).value();
  EXPECT_FALSE(client.acquire(name, {.wait = 0ms}));
  const Lock plain = client.acquire(name + "2").value();
  EXPECT_FALSE(client.acquire(name + "2", {.reentry = Reentry::allowed, .wait = 0ms}));
}

TEST_P(LockTest, ReentryGivesTheSameTokenAndTheLastHandleReleases) {
  const LockOptions options{.reentry = Reentry::allowed, .wait = 0ms};
  Lock outer = client.acquire(name, options).value();
  Lock inner = client.acquire(name, options).value();
  EXPECT_FALSE(outer.reentered());
  EXPECT_TRUE(inner.reentered());
  EXPECT_EQ(inner.token(), outer.token());
  EXPECT_EQ(inner.owner(), outer.owner());
  EXPECT_EQ(client.stats().acquired, 1U);
  EXPECT_EQ(client.stats().reentered, 1U);
  EXPECT_EQ(client.stats().held, 1U);

  EXPECT_EQ(outer.release(), Release::done);
  EXPECT_FALSE(outer.valid());
  EXPECT_TRUE(inner.valid());
  EXPECT_TRUE(store.has_lock(name));
  EXPECT_EQ(outer.release(), Release::done);
  EXPECT_TRUE(inner.valid());
  EXPECT_EQ(inner.release(), Release::done);
  EXPECT_FALSE(store.has_lock(name));
}

TEST_P(LockTest, ReentryDoesNotReachAnotherClient) {
  auto options = as_new_runner();
  options.runner = client.runner();
  LockClient same_runner{store.uri(), options};
  const Lock lock = client.acquire(name, {.reentry = Reentry::allowed}).value();
  EXPECT_FALSE(same_runner.acquire(name, {.reentry = Reentry::allowed, .wait = 0ms}));
  EXPECT_FALSE(other.acquire(name, {.reentry = Reentry::allowed, .wait = 0ms}));
}

TEST_P(LockTest, ReentryIsNotForARunnerThatOnlyTheHoldersMetadataNames) {
  const TempDir dir;
  auto options = as_new_runner();
  options.runner = RunnerId::from_file(dir.path() / "runner");
  ASSERT_TRUE(options.runner->persistent());
  LockClient named{store.uri(), options};
  Lock lock = client.acquire(name, {.metadata = {{"runner", options.runner->str()}}}).value();
  EXPECT_FALSE(named.acquire(name, {.reentry = Reentry::allowed, .wait = 0ms}));
  EXPECT_EQ(lock.extend(), Ownership::held);
}

TEST_P(LockTest, ReentryIntoALostLockIsANewGrant) {
  const LockOptions options{
      .ttl = 100ms, .reentry = Reentry::allowed, .heartbeat = Heartbeat::manual, .wait = 20s};
  Lock lost = client.acquire(name, options).value();
  ASSERT_TRUE(wait_for_stop(lost.lost()));
  Lock again = client.acquire(name, {.reentry = Reentry::allowed, .wait = 20s}).value();
  EXPECT_FALSE(again.reentered());
  EXPECT_GT(again.token(), lost.token());
  EXPECT_EQ(lost.release(), Release::was_lost);
  EXPECT_TRUE(client.acquire(name, {.reentry = Reentry::allowed, .wait = 0ms})->reentered());
  EXPECT_EQ(again.release(), Release::done);
}

// --- Stale records, operators, statistics ------------------------------------------------------

TEST_P(LockTest, NextHolderLearnsOfTheOneThatVanished) {
  leave_stale(name);
  const FencingToken vanished = client.status(name)->token;
  auto recorder = std::make_shared<EventRecorder>();
  LockClient next{store.uri(), as_new_runner(recorder)};
  const Lock lock = next.acquire(name, {.wait = 0ms}).value();
  ASSERT_TRUE(lock.took_over_from());
  EXPECT_EQ(lock.took_over_from()->runner, client.runner().str());
  EXPECT_EQ(lock.took_over_from()->state, LockState::stale);
  EXPECT_EQ(lock.took_over_from()->remaining, 0ms);
  EXPECT_GT(lock.token(), vanished);
  EXPECT_EQ(recorder->types(), (std::vector{LockEventType::acquiring, LockEventType::acquired,
                                            LockEventType::stale_seen, LockEventType::takeover}));
  EXPECT_EQ(next.stats().takeovers, 1U);
  EXPECT_EQ(next.stats().stale_seen, 1U);
}

TEST_P(LockTest, RecordOfAVanishedHolderIsGoneByItself) {
  auto options = as_new_runner();
  options.keep_stale_records = 1s;
  LockClient forgetful{store.uri(), options};
  const Lock lock = forgetful.acquire(name, {.ttl = 50ms, .heartbeat = Heartbeat::manual}).value();
  // It may be there until somebody looks, but nobody sees it.
  EXPECT_TRUE(eventually([&] { return !client.status(name); }, patience));
  EXPECT_FALSE(client.acquire(name)->took_over_from());
}

TEST_P(LockTest, CleanupRemovesStaleRecordsOnly) {
  const Lock held = client.acquire(name + "-held").value();
  leave_stale(name + "-stale1");
  leave_stale(name + "-stale2");
  std::set<std::string> removed;
  for (const auto& record : other.cleanup_stale(name + "*")) removed.insert(record.name);
  EXPECT_EQ(removed, (std::set{name + "-stale1", name + "-stale2"}));
  EXPECT_TRUE(other.cleanup_stale(name + "*").empty());
  EXPECT_TRUE(other.status(name + "-held"));
  EXPECT_FALSE(other.status(name + "-stale1"));
}

/// Does something just before the third round trip from now.
class LinkWithHook final : public RedisLink {
 public:
  explicit LinkWithHook(const std::string& uri) : link_(connect_redis(uri)) {}

  std::function<void()> before_third;

  std::vector<leasehold::RedisReply> pipeline(std::span<const RedisCommand> commands,
                                              milliseconds timeout) override {
    if (before_third && ++calls_ == 3) before_third();
    return link_->pipeline(commands, timeout);
  }
  std::vector<leasehold::RedisReply> pipeline(std::span<const RedisCommand> commands) override {
    return pipeline(commands, 10s);
  }
  std::string where() const override { return link_->where(); }

 private:
  const std::shared_ptr<RedisLink> link_;
  int calls_ = 0;
};

TEST_F(RedisLockTest, CleanupSparesALockThatIsTakenMeanwhile) {
  const auto link = std::make_shared<LinkWithHook>(store.uri());
  LockClient cleaner{link, as_new_runner()};
  leave_stale(name);
  ASSERT_EQ(cleaner.cleanup_stale(name).size(), 1U);
  leave_stale(name);
  std::optional<Lock> lock;
  // Found, read, and then removed.
  link->before_third = [&] { lock = other.acquire(name, {.wait = 0ms}).value(); };
  EXPECT_TRUE(cleaner.cleanup_stale(name).empty());
  ASSERT_TRUE(lock);
  EXPECT_EQ(lock->extend(), Ownership::held);
}

TEST_P(LockTest, ForceReleaseFreesTheLockAndTellsItsHolder) {
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

class LockListTest : public OnEveryLockStoreOfItsOwn {};  // all locks are counted
ON_EVERY_STORE(LockListTest);

TEST_P(LockListTest, WalksOverMoreThanOnePageAndCounts) {
  LockClient client{store.uri(), as_new_runner()};
  LockClient other{store.uri(), as_new_runner()};
  constexpr std::size_t many = 1'500;
  {
    std::vector<Lock> locks;
    for (std::size_t i = 0; i < many; ++i) {
      locks.push_back(client.acquire("many:" + std::to_string(100'000 + i)).value());
    }
    const Lock others = other.acquire("single").value();
    {
      const Lock stale =
          other.acquire("stale", {.ttl = 50ms, .heartbeat = Heartbeat::manual}).value();
      // A handle that knows of its loss leaves the record alone.
      ASSERT_TRUE(eventually([&] {
        return stale.lost().stop_requested() && client.status("stale")->state == LockState::stale;
      }));
    }
    if (store.is_redis()) store.redis().command({"RPUSH", key_of("no lock"), "a"});

    const auto found = other.list("many:*");
    ASSERT_EQ(found.size(), many);
    for (std::size_t i = 0; i < many; ++i) {
      ASSERT_EQ(found[i].name, locks[i].name());
      ASSERT_EQ(found[i].token, locks[i].token());
    }
    EXPECT_EQ(client.list().size(), many + 2);
    EXPECT_EQ(client.list("many:10000?").size(), 10U);
    EXPECT_EQ(client.list("[s]ingle").size(), 1U);
    EXPECT_EQ(client.list("\\s[^a]ngle").size(), 1U);
    EXPECT_TRUE(client.list("many:\\*").empty());
    EXPECT_TRUE(client.list("none*").empty());

    int visited = 0;
    client.visit("*", [&](const LockRecord&) { return ++visited < 10; });
    EXPECT_EQ(visited, 10);

    EXPECT_FALSE(client.stats().census);
    const LockCensus census = client.stats(StatsScope::store).census.value();
    EXPECT_EQ(census.total, many + 2);
    EXPECT_EQ(census.active, many + 1);
    EXPECT_EQ(census.mine, many);
    EXPECT_EQ(census.stale, 1U);
    EXPECT_EQ(client.stats().held, many);
    EXPECT_EQ(client.stats().heartbeats_active, many);
  }
  EXPECT_EQ(client.cleanup_stale().size(), 1U);
  if (!store.is_redis()) return;
  store.redis().command({"DEL", key_of("no lock")});
  store.expect_nothing_left();
  // Never KEYS: the only ones are ours, from outside.
  const std::string calls = store.redis().command({"INFO", "commandstats"}).string;
  EXPECT_NE(calls.find("cmdstat_keys:calls=1,"), std::string::npos) << calls;
}

TEST_P(LockTest, StatisticsCountWhatHappened) {
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

TEST_P(LockTest, ObserverIsToldInOrder) {
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

TEST_P(LockTest, ObserverIsToldOfALoss) {
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

// --- Losses that others cause (L3, L4) ---------------------------------------------------------

TEST_P(LockTest, DeletionFromOutsideIsToldToTheHolderAndNotUndone) {
  ASSERT_TRUE(store.listens(client, name));  // who begins to listen looks at once
  Lock lock = client.acquire(name, {.heartbeat_every = 100ms}).value();
  store.delete_lock(name);
  EXPECT_TRUE(wait_for_stop(lock.lost()));
  EXPECT_EQ(lock.loss_reason(), LossReason::vanished);
  EXPECT_FALSE(store.has_lock(name));
  EXPECT_EQ(lock.extend(), Ownership::lost);
  EXPECT_EQ(lock.release(), Release::was_lost);
}

TEST_P(LockTest, DeletionFromOutsideIsSeenByRelease) {
  Lock lock = client.acquire(name).value();
  store.delete_lock(name);
  EXPECT_EQ(lock.release(), Release::was_lost);
}

TEST_P(LockTest, ReleaseOfALockThatSomebodyElseHasLeavesItAlone) {
  Lock lock = client.acquire(name).value();
  Lock forced = other.acquire(name, {.on_conflict = OnConflict::force}).value();
  EXPECT_EQ(lock.release(), Release::was_lost);
  EXPECT_EQ(forced.extend(), Ownership::held);
}

TEST_P(LockDataLossTest, IsToldToTheHolderAndIsANewBeginningForAll) {
  ASSERT_TRUE(store.listens(client, name));  // who begins to listen looks at once
  Lock lock = client.acquire(name, {.heartbeat_every = 100ms}).value();
  store.lose_all_data();
  EXPECT_TRUE(wait_for_stop(lock.lost()));
  EXPECT_EQ(lock.loss_reason(), LossReason::vanished);
  EXPECT_FALSE(store.has_lock(name)) << "taken again silently";
  const Lock next = other.acquire(name).value();
  EXPECT_GT(next.token(), lock.token());
  EXPECT_FALSE(client.acquire(name, {.on_conflict = OnConflict::fail_fast}));
}

// --- Loss callbacks ----------------------------------------------------------------------------

class LossCallbackTest : public LockTest {
 protected:
  static LockOptions soon_lost(std::function<void(const LockLoss&)> on_lost) {
    return {.ttl = 50ms, .on_lost = std::move(on_lost), .heartbeat = Heartbeat::manual};
  }
};
ON_EVERY_STORE(LossCallbackTest);

TEST_P(LossCallbackTest, ComesOnceAfterTheTokenFired) {
  std::stop_token lost;
  const Signal stored;
  const Signal called;
  std::atomic<int> calls = 0;
  std::atomic<bool> fired_before = false;
  Lock lock = client
                  .acquire(name, {.heartbeat = Heartbeat::manual,
                                  .on_lost =
                                      [&, stored, called](const LockLoss& loss) {
                                        EXPECT_TRUE(stored.wait());
                                        EXPECT_EQ(loss.name, name);
                                        EXPECT_EQ(loss.reason, LossReason::vanished);
                                        EXPECT_GT(loss.token.value, 0U);
                                        fired_before = lost.stop_requested();
                                        ++calls;
                                        called.set();
                                      }})
                  .value();
  lost = lock.lost();
  stored.set();
  client.force_release(name);
  EXPECT_EQ(lock.extend(), Ownership::lost);
  EXPECT_EQ(lock.extend(), Ownership::lost);
  ASSERT_TRUE(called.wait());
  EXPECT_TRUE(fired_before);
  EXPECT_EQ(lock.release(), Release::was_lost);
  EXPECT_EQ(calls, 1);
}

TEST_P(LossCallbackTest, DoesNotComeOnRelease) {
  std::atomic<int> calls = 0;
  {
    LockClient brief{store.uri(), as_new_runner()};
    brief.acquire(name, {.on_lost = [&](const LockLoss&) { ++calls; }})->release();
  }  // waits for callbacks
  EXPECT_EQ(calls, 0);
}

TEST_P(LossCallbackTest, ThatBlocksDelaysNoRenewal) {
  store.repeat_if_heartbeats_starved(1'500ms, [&] {
    Signal blocked;
    Signal end;
    Lock kept = client.acquire(name + "-kept", {.ttl = 1'500ms, .heartbeat_every = 100ms}).value();
    const Lock lost = client
                          .acquire(name, soon_lost([=](const LockLoss&) {
                                     blocked.set();
                                     EXPECT_TRUE(end.wait());
                                   }))
                          .value();
    ASSERT_TRUE(blocked.wait());
    const auto before = events->count(LockEventType::heartbeat, kept.name());
    EXPECT_TRUE(events->wait_for(LockEventType::heartbeat, before + 4, kept.name()));
    EXPECT_TRUE(kept.valid());
    end.set();
  });
}

TEST_P(LossCallbackTest, ThatBlocksDelaysNoOtherLockFromLearningOfItsLoss) {
  Signal blocked;
  Signal end;
  const Lock first = client
                         .acquire(name, soon_lost([=](const LockLoss&) {
                                    blocked.set();
                                    EXPECT_TRUE(end.wait());
                                  }))
                         .value();
  ASSERT_TRUE(blocked.wait());
  const Lock second = client.acquire(name + "2", soon_lost(nullptr)).value();
  EXPECT_TRUE(wait_for_stop(second.lost()));
  end.set();
}

TEST_P(LossCallbackTest, ThatThrowsHarmsNobody) {
  const Lock first =
      client.acquire(name, soon_lost([](const LockLoss&) { throw std::runtime_error("no"); }))
          .value();
  const Lock odd = client.acquire(name + "1", soon_lost([](const LockLoss&) { throw 42; })).value();
  ASSERT_TRUE(wait_for_stop(first.lost()));
  ASSERT_TRUE(wait_for_stop(odd.lost()));
  Signal called;
  const Lock second =
      client.acquire(name + "2", soon_lost([=](const LockLoss&) { called.set(); })).value();
  EXPECT_TRUE(called.wait());
}

TEST_P(LossCallbackTest, MayDestroyTheLastHandleAndTheClient) {
  struct Service {
    std::optional<LockClient> client;
    std::optional<Lock> lock;
  };
  Service service;
  Signal ready;
  Signal done;
  service.client.emplace(store.uri(), as_new_runner());
  service.lock.emplace(service.client
                           ->acquire(name, soon_lost([&, ready, done](const LockLoss&) {
                                       EXPECT_TRUE(ready.wait());
                                       service.client.reset();
                                       service.lock.reset();
                                       done.set();
                                     }))
                           .value());
  ready.set();
  EXPECT_TRUE(done.wait());
}

TEST_P(LossCallbackTest, MayBeTheLastToOwnTheClient) {
  auto owned = std::make_shared<LockClient>(store.uri(), as_new_runner());
  const std::weak_ptr<LockClient> seen = owned;
  const Signal alone;
  std::optional<Lock> lock =
      owned
          ->acquire(name, soon_lost([owned, alone](const LockLoss&) { EXPECT_TRUE(alone.wait()); }))
          .value();
  ASSERT_TRUE(wait_for_stop(lock->lost()));
  lock.reset();
  owned.reset();
  EXPECT_FALSE(seen.expired());
  alone.set();
  EXPECT_TRUE(eventually([&] { return seen.expired(); }));
}

TEST_P(LossCallbackTest, StopCallbackMayDestroyTheLastHandleAndTheClient) {
  std::optional<LockClient> last{std::in_place, store.uri(), as_new_runner()};
  std::optional<Lock> lock{last->acquire(name, soon_lost(nullptr)).value()};
  Signal ready;
  Signal done;
  const std::stop_callback destroy{lock->lost(), [&, ready, done] {
                                     EXPECT_TRUE(ready.wait());
                                     last.reset();
                                     lock.reset();
                                     done.set();
                                   }};
  ready.set();
  EXPECT_TRUE(done.wait());
}

}  // namespace
}  // namespace leasehold::testing
