// Losses that others cause, and the callbacks that tell of a loss.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>

#include "tests/integration/locks/lock_fixture.hpp"

namespace leasehold::testing {
namespace {

class LockLossTest : public LockFixture<OnEveryLockStore> {};
ON_EVERY_STORE(LockLossTest);

TEST_P(LockLossTest, DeletionFromOutsideIsToldToTheHolderAndNotUndone) {
  ASSERT_TRUE(store.listens(client, name));  // who begins to listen looks at once
  Lock lock = client.acquire(name, {.heartbeat_every = 100ms}).value();
  store.delete_lock(name);
  EXPECT_TRUE(wait_for_stop(lock.lost()));
  EXPECT_EQ(lock.loss_reason(), LossReason::vanished);
  EXPECT_FALSE(store.has_lock(name));
  EXPECT_EQ(lock.extend(), Ownership::lost);
  EXPECT_EQ(lock.release(), Release::was_lost);
}

TEST_P(LockLossTest, DeletionFromOutsideIsSeenByRelease) {
  Lock lock = client.acquire(name).value();
  store.delete_lock(name);
  EXPECT_EQ(lock.release(), Release::was_lost);
}

TEST_P(LockLossTest, ReleaseOfALockThatSomebodyElseHasLeavesItAlone) {
  Lock lock = client.acquire(name).value();
  Lock forced = other.acquire(name, {.on_conflict = OnConflict::force}).value();
  EXPECT_EQ(lock.release(), Release::was_lost);
  EXPECT_EQ(forced.extend(), Ownership::held);
}

/// For tests in which all data is lost.
class LockDataLossTest : public LockFixture<OnEveryLockStoreOfItsOwn> {};
ON_EVERY_STORE(LockDataLossTest);

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

class LossCallbackTest : public LockLossTest {
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
                  .acquire(name, {.on_lost =
                                      [&, stored, called](const LockLoss& loss) {
                                        EXPECT_TRUE(stored.wait());
                                        EXPECT_EQ(loss.name, name);
                                        EXPECT_EQ(loss.reason, LossReason::vanished);
                                        EXPECT_GT(loss.token.value, 0U);
                                        fired_before = lost.stop_requested();
                                        ++calls;
                                        called.set();
                                      },
                                  .heartbeat = Heartbeat::manual})
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
