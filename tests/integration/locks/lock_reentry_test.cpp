// A client that acquires a lock that it already holds.
#include <gtest/gtest.h>

#include "tests/integration/locks/lock_fixture.hpp"

namespace leasehold::testing {
namespace {

class LockReentryTest : public LockFixture<OnEveryLockStore> {};
ON_EVERY_STORE(LockReentryTest);

TEST_P(LockReentryTest, ReentryIsRefusedUnlessAskedFor) {
  const Lock lock = client.acquire(name, {.reentry = Reentry::allowed}).value();
  EXPECT_FALSE(client.acquire(name, {.wait = 0ms}));
  const Lock plain = client.acquire(name + "2").value();
  EXPECT_FALSE(client.acquire(name + "2", {.reentry = Reentry::allowed, .wait = 0ms}));
}

TEST_P(LockReentryTest, ReentryGivesTheSameTokenAndTheLastHandleReleases) {
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

TEST_P(LockReentryTest, ReentryDoesNotReachAnotherClient) {
  auto options = as_new_runner();
  options.runner = client.runner();
  LockClient same_runner{store.uri(), options};
  const Lock lock = client.acquire(name, {.reentry = Reentry::allowed}).value();
  EXPECT_FALSE(same_runner.acquire(name, {.reentry = Reentry::allowed, .wait = 0ms}));
  EXPECT_FALSE(other.acquire(name, {.reentry = Reentry::allowed, .wait = 0ms}));
}

TEST_P(LockReentryTest, ReentryIsNotForARunnerThatOnlyTheHoldersMetadataNames) {
  const TempDir dir;
  auto options = as_new_runner();
  options.runner = RunnerId::from_file(dir.path() / "runner");
  ASSERT_TRUE(options.runner->persistent());
  LockClient named{store.uri(), options};
  Lock lock = client.acquire(name, {.metadata = {{"runner", options.runner->str()}}}).value();
  EXPECT_FALSE(named.acquire(name, {.reentry = Reentry::allowed, .wait = 0ms}));
  EXPECT_EQ(lock.extend(), Ownership::held);
}

TEST_P(LockReentryTest, ReentryIntoALostLockIsANewGrant) {
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

}  // namespace
}  // namespace leasehold::testing
