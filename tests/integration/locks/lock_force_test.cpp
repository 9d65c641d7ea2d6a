// An operator's override: whoever loses the lock by it is told at once, not by its next heartbeat.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/support/family_process.hpp"
#include "tests/support/hooked_link.hpp"
#include "tests/support/lock_family.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;

// A heartbeat is due every 20 s: what is told within 10 s was not learned by one.
constexpr std::chrono::milliseconds ttl = 60s;
constexpr std::chrono::milliseconds at_once = 10s;

template <class Store>
class LockForceFixture : public LockFamilyFixture<Store> {
 protected:
  using Clock = typename LockFamilyFixture<Store>::Clock;
  using LockFamilyFixture<Store>::events;
  using LockFamilyFixture<Store>::name;
  using LockFamilyFixture<Store>::store;

  /// Whether the holder is told before its heartbeat could have found out.
  ::testing::AssertionResult told_at_once(const Lock& lock, LossReason reason) {
    const auto began = Clock::now();
    if (!wait_for_stop(lock.lost())) return ::testing::AssertionFailure() << "never told";
    if (Clock::now() - began >= at_once) return ::testing::AssertionFailure() << "told late";
    if (events->count(LockEventType::heartbeat) != 0) {
      return ::testing::AssertionFailure() << "there was a heartbeat";
    }
    if (lock.loss_reason() != reason) {
      return ::testing::AssertionFailure() << "reason " << to_string(lock.loss_reason());
    }
    return ::testing::AssertionSuccess();
  }

  void SetUp() override {
    EXPECT_TRUE(holder.acquire(name));  // it listens from its first lock on
    ASSERT_TRUE(!store.is_redis() || subscribed.wait());
  }

  LockClient make_holder() const {
    if (!store.is_redis()) return LockClient{store.uri(), as_new_runner(events)};
    auto link = std::make_shared<HookedLink>(store.uri());
    link->after_subscribed = [signal = subscribed] { signal.set(); };
    return LockClient{link, as_new_runner(events)};
  }

  Signal subscribed;
  LockClient holder = make_holder();
  SharedLock shared{holder, name};
};

class LockForceTest : public LockForceFixture<OnEveryLockStore> {};
ON_EVERY_STORE(LockForceTest);

class LockForceProcessTest : public LockForceFixture<OnEveryLockStore> {};
ON_STORES_BETWEEN_PROCESSES(LockForceProcessTest);

class RedisLockForceTest : public LockForceFixture<OnRedis> {
 protected:
  RedisEndpoint& redis = store.redis();
};

TEST_P(LockForceTest, HolderIsToldAtOnceThatItsLockWasTaken) {
  Lock held = holder.acquire(name, {.ttl = ttl}).value();
  const Lock forced = other.acquire(name, by_force()).value();
  EXPECT_TRUE(told_at_once(held, LossReason::taken));
  EXPECT_GT(forced.token(), held.token());
  ASSERT_TRUE(forced.took_over_from());
  EXPECT_EQ(forced.took_over_from()->runner, holder.runner().str());
  EXPECT_EQ(held.release(), Release::was_lost);
  EXPECT_TRUE(forced.valid());
  EXPECT_EQ(other.stats().forced, 1U);
}

TEST_P(LockForceTest, HolderIsToldAtOnceThatItsLockWasReleased) {
  Lock held = holder.acquire(name, {.ttl = ttl}).value();
  ASSERT_TRUE(other.force_release(name));
  EXPECT_TRUE(told_at_once(held, LossReason::vanished));
  EXPECT_FALSE(other.status(name));
}

TEST_P(LockForceTest, EveryReaderIsTold) {
  std::vector<Lock> readers;
  for (int i = 0; i < 3; ++i) readers.push_back(shared.read({.ttl = ttl}).value());
  const Lock forced = other.acquire(name, by_force()).value();
  for (const Lock& reader : readers) EXPECT_TRUE(told_at_once(reader, LossReason::taken));
  EXPECT_EQ(other.status(name)->kind, LockKind::exclusive);
  for (Lock& reader : readers) EXPECT_EQ(reader.release(), Release::was_lost);
  EXPECT_TRUE(forced.valid());
}

TEST_P(LockForceTest, EveryReaderIsToldOfAForcedRelease) {
  std::vector<Lock> readers;
  for (int i = 0; i < 3; ++i) readers.push_back(shared.read({.ttl = ttl}).value());
  const auto record = other.force_release(name);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->kind, LockKind::shared);
  EXPECT_EQ(record->holder_count, 3U);
  for (const Lock& reader : readers) EXPECT_TRUE(told_at_once(reader, LossReason::vanished));
  EXPECT_FALSE(other.status(name));
  EXPECT_FALSE(other.force_release(name));
}

TEST_P(LockForceTest, ReaderOustsAWriterButNoReader) {
  Lock writer = shared.write({.ttl = ttl}).value();
  SharedLock theirs{other, name};
  const Lock first = theirs.read(by_force()).value();
  EXPECT_TRUE(told_at_once(writer, LossReason::taken));
  const Lock second = theirs.read(by_force()).value();
  EXPECT_TRUE(first.valid());
  EXPECT_FALSE(first.lost().stop_requested());
  EXPECT_EQ(holders(), 2U);
}

TEST_P(LockForceTest, PermitHoldersAreTold) {
  Semaphore permits{holder, name, 2};
  const Lock one = permits.acquire({.ttl = ttl}).value();
  const Lock two = permits.acquire({.ttl = ttl}).value();
  ASSERT_TRUE(other.force_release(name));
  EXPECT_TRUE(told_at_once(one, LossReason::vanished));
  EXPECT_TRUE(told_at_once(two, LossReason::vanished));
}

TEST_P(LockForceProcessTest, HoldersInOtherProcessesAreTold) {
  FamilyProcess exclusive{store, name, ttl, "exclusive"};
  exclusive.held();
  exclusive.order("wait-lost");
  auto began = Clock::now();
  Lock forced = client.acquire(name, by_force()).value();
  EXPECT_EQ(exclusive.answer(), "lost taken");
  EXPECT_LT(Clock::now() - began, at_once);
  forced.release();

  FamilyProcess reader{store, name, ttl, "read"};
  FamilyProcess another{store, name, ttl, "read"};
  reader.held();
  another.held();
  reader.order("wait-lost");
  another.order("wait-lost");
  began = Clock::now();
  ASSERT_TRUE(client.force_release(name));
  EXPECT_EQ(reader.answer(), "lost vanished");
  EXPECT_EQ(another.answer(), "lost vanished");
  EXPECT_LT(Clock::now() - began, at_once);
}

TEST_P(LockForceProcessTest, NextInLineGetsWhatWasForciblyReleased) {
  const Lock held = holder.acquire(name, {.ttl = ttl}).value();
  FamilyProcess next{store, name, ttl, "exclusive"};
  ASSERT_TRUE(waiting(1));
  const auto record = other.force_release(name);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->pid, getpid());
  EXPECT_GT(next.held(), held.token());
  EXPECT_TRUE(told_at_once(held, LossReason::vanished));
}

TEST_P(LockForceTest, WaitersStayInLineWhenALockIsForced) {
  const Lock held = holder.acquire(name, {.ttl = ttl}).value();
  auto waiter = in_background([&] { return other.acquire(name, {.wait = patience}); });
  ASSERT_TRUE(waiting(1));
  Lock forced = other.acquire(name, by_force()).value();
  EXPECT_TRUE(told_at_once(held, LossReason::taken));
  EXPECT_EQ(in_line(), 1);
  EXPECT_EQ(forced.release(), Release::done);
  EXPECT_GT(result_of(waiter).value().token(), forced.token());
}

// The word may be faster than the reply that brings the lock.
TEST_F(RedisLockForceTest, LossThatIsToldBeforeTheGrantArrivesIsNotMissed) {
  auto link = std::make_shared<HookedLink>(store.uri());
  Signal heard;
  std::atomic<bool> armed = false;
  link->after_message = [heard] { heard.set(); };
  link->after_command = [&, heard] {
    if (!armed.exchange(false)) return;
    const Lock thief = other.acquire(name, by_force()).value();
    EXPECT_TRUE(heard.wait());
  };
  Signal listens;
  link->after_subscribed = [listens] { listens.set(); };
  LockClient lent{link, as_new_runner(events)};
  EXPECT_TRUE(lent.acquire(name));
  ASSERT_TRUE(listens.wait());
  armed = true;
  Lock held = lent.acquire(name, {.ttl = ttl}).value();
  EXPECT_TRUE(told_at_once(held, LossReason::taken));
  EXPECT_EQ(held.release(), Release::was_lost);
}

// A process that has just started, or whose subscription broke, does not hear. It looks when it
// can.
TEST_F(RedisLockForceTest, LossThatNobodyHeardIsFoundOnceWeHear) {
  auto link = std::make_shared<HookedLink>(store.uri());
  Signal may_listen;
  link->subscribes_after = may_listen;
  LockClient deaf{link, as_new_runner(events)};
  const Lock exclusive = deaf.acquire(name, {.ttl = ttl}).value();
  const Lock manual =
      deaf.acquire(name + ":m", {.ttl = ttl, .heartbeat = Heartbeat::manual}).value();
  const Lock reader = SharedLock{deaf, name + ":r"}.read({.ttl = ttl}).value();
  const Lock kept = deaf.acquire(name + ":k", {.ttl = ttl}).value();
  const Lock kept_reader = SharedLock{deaf, name + ":kr"}.read({.ttl = ttl}).value();
  const Lock forced = other.acquire(name, by_force()).value();
  ASSERT_TRUE(other.force_release(name + ":m"));
  ASSERT_TRUE(other.force_release(name + ":r"));
  EXPECT_TRUE(exclusive.valid());
  may_listen.set();
  EXPECT_TRUE(told_at_once(exclusive, LossReason::taken));
  EXPECT_TRUE(told_at_once(manual, LossReason::vanished));
  EXPECT_TRUE(told_at_once(reader, LossReason::vanished));
  EXPECT_TRUE(kept.valid());
  EXPECT_TRUE(kept_reader.valid());
}

TEST_F(RedisLockForceTest, LossDuringABrokenSubscriptionIsFound) {
  const Lock held = holder.acquire(name, {.ttl = ttl}).value();
  redis.command({"CLIENT", "KILL", "TYPE", "pubsub"});
  const Lock forced = other.acquire(name, by_force()).value();
  EXPECT_TRUE(told_at_once(held, LossReason::taken));
}

// The grant was on its way while we became able to hear: its loss may have been said before.
TEST_F(RedisLockForceTest, LossBeforeWeHearOfAGrantThatIsOnItsWayIsFound) {
  auto link = std::make_shared<HookedLink>(store.uri());
  Signal may_listen;
  Signal listens;
  std::atomic<bool> armed = true;
  link->subscribes_after = may_listen;
  link->after_subscribed = [listens] { listens.set(); };
  link->after_command = [&, listens, may_listen] {
    if (!armed.exchange(false)) return;
    const Lock thief = other.acquire(name, by_force()).value();
    may_listen.set();
    EXPECT_TRUE(listens.wait());
  };
  LockClient lent{link, as_new_runner(events)};
  const Lock held = lent.acquire(name, {.ttl = ttl}).value();
  EXPECT_TRUE(told_at_once(held, LossReason::taken) || told_at_once(held, LossReason::vanished));
}

// With the default options a holder is silent for `steal_after` between any two of its heartbeats.
TEST_F(RedisLockForceTest, StealStaleDoesNotPesterTheStoreAboutAHolderThatIsNotSilentYet) {
  const Lock held = holder.acquire(name, {.ttl = 60s}).value();
  auto link = std::make_shared<HookedLink>(store.uri());
  LockClient thief{link, as_new_runner()};
  EXPECT_FALSE(thief.acquire(
      name, {.wait = 2s, .on_conflict = OnConflict::steal_stale, .steal_after = 1ms}));
  // It looks once a second, and looks after the line as often.
  EXPECT_LT(link->round_trips(), 15);
}

}  // namespace
}  // namespace leasehold::testing
