// A lock is held until it is released: by its handle, or by the end of the last one.
#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "tests/integration/locks/lock_fixture.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::steady_clock;

class LockReleaseTest : public LockFixture<OnEveryLockStore> {};
ON_EVERY_STORE(LockReleaseTest);

static_assert(!std::is_copy_constructible_v<Lock> && !std::is_copy_assignable_v<Lock>);
static_assert(std::is_nothrow_move_constructible_v<Lock>);
static_assert(std::is_nothrow_move_assignable_v<Lock>);
static_assert(std::is_nothrow_destructible_v<Lock>);

TEST_P(LockReleaseTest, IsHeldUntilItIsReleased) {
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

TEST_P(LockReleaseTest, ReleasingAgainGivesTheSameAnswerAndDoesNothing) {
  Lock lock = client.acquire(name).value();
  EXPECT_EQ(lock.release(), Release::done);
  Lock next = other.acquire(name).value();
  EXPECT_EQ(lock.release(), Release::done);
  EXPECT_EQ(lock.extend(), Ownership::lost);
  EXPECT_EQ(next.extend(), Ownership::held);
}

TEST_P(LockReleaseTest, DestructorReleases) {
  { const Lock lock = client.acquire(name).value(); }
  EXPECT_FALSE(store.has_lock(name));
  EXPECT_EQ(client.stats().released, 1U);
}

TEST_P(LockReleaseTest, MovesButIsReleasedOnce) {
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

TEST_P(LockReleaseTest, MoveAssignmentReleasesWhatWasHeld) {
  const std::string name2 = name_for_test("second");
  Lock lock = client.acquire(name).value();
  lock = client.acquire(name2).value();
  EXPECT_FALSE(store.has_lock(name));
  EXPECT_EQ(lock.name(), name2);
  EXPECT_TRUE(lock.valid());
}

TEST_P(LockReleaseTest, OutlivesItsClient) {
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

TEST_P(LockReleaseTest, DifferentLocksDoNotDisturbEachOther) {
  const Lock one = client.acquire(name).value();
  const Lock two = client.acquire(name + "2").value();
  EXPECT_TRUE(one.valid() && two.valid());
  EXPECT_NE(one.owner(), two.owner());
}

}  // namespace
}  // namespace leasehold::testing
