// A number of permits.
#include <gtest/gtest.h>

#include <optional>

#include "tests/support/family_process.hpp"
#include "tests/support/lock_family.hpp"
#include "tests/support/lock_storm.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;

class SemaphoreTest : public LockFamilyFixture<OnEveryLockStore> {
 protected:
  /// A waiter that stands in line when this returns.
  std::future<Acquisition> queue_up(Semaphore semaphore, std::int64_t place) {
    auto future =
        in_background([semaphore]() mutable { return semaphore.acquire({.wait = patience}); });
    EXPECT_TRUE(waiting(place));
    return future;
  }

  static bool ready(const std::future<Acquisition>& future) {
    return future.wait_for(0s) == std::future_status::ready;
  }
};
ON_EVERY_STORE(SemaphoreTest);

class SemaphoreProcessTest : public SemaphoreTest {};
ON_STORES_BETWEEN_PROCESSES(SemaphoreProcessTest);

TEST_P(SemaphoreTest, HandsOutAsManyPermitsAsThereAre) {
  Semaphore here{client, name, 3};
  Semaphore there{other, name, 3};
  EXPECT_EQ(here.name(), name);
  EXPECT_EQ(here.permits(), 3);
  std::vector<Lock> permits;
  permits.push_back(here.acquire().value());
  permits.push_back(there.acquire().value());
  permits.push_back(here.acquire().value());
  EXPECT_EQ(holders(), 3U);
  EXPECT_FALSE(there.acquire(fail_fast()));
  EXPECT_FALSE(here.acquire(fail_fast()));
  EXPECT_EQ(permits[1].release(), Release::done);
  const Lock again = here.acquire(fail_fast()).value();
  EXPECT_FALSE(there.acquire(fail_fast()));
}

TEST_P(SemaphoreTest, LeavesNothingBehind) {
  {
    Semaphore semaphore{client, name, 2};
    const Lock one = semaphore.acquire().value();
    const Lock two = semaphore.acquire().value();
    EXPECT_FALSE(semaphore.acquire(fail_fast()));
  }
  store.expect_nothing_left_of(name);
}

TEST_P(SemaphoreTest, RefusesNumbersThatMakeNoSense) {
  for (const int wrong : {0, -1, 1'000'001}) {
    try {
      Semaphore semaphore{client, name, wrong};
      ADD_FAILURE() << wrong << " was accepted";
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(wrong)), std::string::npos);
    }
    Semaphore semaphore{client, name, 1};
    EXPECT_THROW(semaphore.resize(wrong), InvalidArgument);
    EXPECT_EQ(semaphore.permits(), 1);
  }
  EXPECT_THROW((Semaphore{client, "", 1}), InvalidArgument);
  EXPECT_TRUE((Semaphore{client, name, 1'000'000}.acquire(fail_fast())));
}

TEST_P(SemaphoreTest, EachPermitHasItsOwnLeaseHeartbeatAndLoss) {
  store.repeat_if_heartbeats_starved(1'500ms, [&] {
    Semaphore semaphore{client, name, 2};
    const auto before = events->count(LockEventType::heartbeat);
    Lock renewed = semaphore.acquire({.ttl = 1'500ms}).value();
    const Lock silent = semaphore.acquire({.ttl = 300ms, .heartbeat = Heartbeat::manual}).value();
    EXPECT_NE(renewed.owner(), silent.owner());
    EXPECT_TRUE(wait_for_stop(silent.lost()));
    EXPECT_EQ(silent.loss_reason(), LossReason::expired);
    ASSERT_TRUE(events->wait_for(LockEventType::heartbeat, before + 3));
    EXPECT_TRUE(renewed.valid());
    EXPECT_FALSE(renewed.lost().stop_requested());
    EXPECT_TRUE(eventually([&] { return holders() == 1; }, patience));
    EXPECT_EQ(renewed.extend(), Ownership::held);
  });
}

TEST_P(SemaphoreProcessTest, PermitOfACrashedHolderComesBackWhenItsTtlEnds) {
  Semaphore semaphore{client, name, 2};
  const Lock mine = semaphore.acquire({.ttl = 30s}).value();
  FamilyProcess crashing{store, name, 1'500ms, "2"};
  crashing.held();
  crashing.kill();
  EXPECT_FALSE(semaphore.acquire(fail_fast()));
  const auto began = Clock::now();
  const Lock next = semaphore.acquire({.wait = patience}).value();
  EXPECT_LT(Clock::now() - began, 1'500ms + 5s);
  EXPECT_TRUE(mine.valid());
  EXPECT_EQ(holders(), 2U);
}

TEST_P(SemaphoreTest, PermitsAreHandedOutInTheOrderOfTheLine) {
  repeat_if_evicted([&] {
    Semaphore semaphore{client, name, 1};
    Lock held = semaphore.acquire().value();
    std::vector<std::future<Acquisition>> line;
    for (int i = 0; i < 5; ++i) line.push_back(queue_up(semaphore, i + 1));
    for (auto& next : line) {
      held.release();
      held = result_of(next).value();
      // Nobody behind it has been let in.
      EXPECT_EQ(std::count_if(line.begin(), line.end(),
                              [](const auto& f) { return f.valid() && ready(f); }),
                0);
    }
  });
}

TEST_P(SemaphoreTest, NewcomersDoNotOvertakeTheLine) {
  repeat_if_evicted([&] {
    Semaphore semaphore{client, name, 2};
    Lock one = semaphore.acquire().value();
    Lock two = semaphore.acquire().value();
    auto first = queue_up(semaphore, 1);
    auto second = queue_up(semaphore, 2);
    one.release();
    const Lock third = result_of(first).value();
    EXPECT_FALSE(semaphore.acquire(fail_fast()));
    two.release();
    EXPECT_TRUE(result_of(second));
  });
}

TEST_P(SemaphoreProcessTest, NeverMoreThanThereArePermits) {
  const StormReport report = run_storm(store, name, 4, 8, 15, {"semaphore", "3"});
  EXPECT_EQ(report.rounds, 4 * 8 * 15);
  EXPECT_EQ(report.violations, 0);
  EXPECT_LE(report.most_inside, 3);
}

// --- Changing the number -----------------------------------------------------------------------

TEST_P(SemaphoreTest, LargerNumberLetsWaitersInAtOnce) {
  repeat_if_evicted([&] {
    Semaphore semaphore{client, name, 1};
    Semaphore elsewhere{other, name, 1};
    const Lock held = semaphore.acquire().value();
    auto first = queue_up(elsewhere, 1);
    auto second = queue_up(elsewhere, 2);
    auto third = queue_up(elsewhere, 3);
    semaphore.resize(3);
    EXPECT_EQ(semaphore.permits(), 3);
    Lock one = result_of(first).value();
    const Lock two = result_of(second).value();
    EXPECT_EQ(holders(), 3U);
    EXPECT_EQ(in_line(), 1);
    // The number stays, although those who were let in had asked when it was another.
    one.release();
    const Lock last = result_of(third).value();
    EXPECT_EQ(holders(), 3U);
  });
}

TEST_P(SemaphoreTest, WaitersThatLookAgainDoNotUndoAResize) {
  Semaphore semaphore{client, name, 1};
  Semaphore elsewhere{other, name, 1};
  Lock held = semaphore.acquire().value();
  // Looks by itself, again and again.
  auto looking = in_background([&] {
    return elsewhere.acquire({.wait = patience,
                              .on_conflict = OnConflict::retry,
                              .retry = {.retries = 1'000'000, .first = 5ms, .longest = 5ms}});
  });
  ASSERT_TRUE(eventually([&] { return other.stats().retries >= 2; }, patience));
  semaphore.resize(2);
  const Lock second = result_of(looking).value();
  EXPECT_FALSE(Semaphore(client, name, 2).acquire(fail_fast()));
  EXPECT_EQ(store.permits(name), 2);
}

TEST_P(SemaphoreTest, SmallerNumberTakesNothingAwayAndDrains) {
  Semaphore semaphore{client, name, 3};
  std::vector<Lock> permits;
  for (int i = 0; i < 3; ++i) permits.push_back(semaphore.acquire().value());
  semaphore.resize(1);
  for (Lock& permit : permits) EXPECT_EQ(permit.extend(), Ownership::held);
  auto waiter = queue_up(semaphore, 1);
  permits.pop_back();
  permits.pop_back();
  EXPECT_EQ(holders(), 1U);
  EXPECT_EQ(in_line(), 1);  // one is out, and one is all there is
  permits.pop_back();
  EXPECT_TRUE(result_of(waiter));
}

TEST_P(SemaphoreProcessTest, LastNumberThatReachedTheStoreCountsForEverybody) {
  Semaphore two{client, name, 2};
  FamilyProcess one_of_four{store, name, 60s, "4"};
  one_of_four.held();
  const Lock second = two.acquire(fail_fast()).value();  // says 2
  EXPECT_FALSE(two.acquire(fail_fast()));
  Semaphore four{other, name, 4};
  const Lock third = four.acquire(fail_fast()).value();  // says 4
  EXPECT_EQ(holders(), 3U);
  EXPECT_FALSE(two.acquire(fail_fast()));  // says 2 again: too many are out already
  FamilyProcess waits{store, name, 60s, "2"};
  ASSERT_TRUE(waiting(1));
  Semaphore five{other, name, 5};
  const Lock fifth = five.acquire({.wait = patience}).value();  // the one who waits comes in first
  waits.held();
  EXPECT_EQ(holders(), 5U);
}

TEST_P(SemaphoreTest, ResizeOfOneThatNobodyUsesLeavesNothing) {
  Semaphore semaphore{client, name, 2};
  semaphore.resize(5);
  EXPECT_EQ(semaphore.permits(), 5);
  store.expect_nothing_left_of(name);
  EXPECT_FALSE(store.has_token(name));
  std::vector<Lock> permits;
  for (int i = 0; i < 5; ++i) permits.push_back(semaphore.acquire(fail_fast()).value());
  EXPECT_FALSE(semaphore.acquire(fail_fast()));
}

TEST_P(SemaphoreTest, ForceHandsOutOneMore) {
  Semaphore semaphore{client, name, 1};
  const Lock held = semaphore.acquire().value();
  const Lock more = semaphore.acquire({.on_conflict = OnConflict::force}).value();
  EXPECT_TRUE(held.valid());
  EXPECT_FALSE(held.lost().stop_requested());
  EXPECT_EQ(holders(), 2U);
}

// --- Beside other locks ------------------------------------------------------------------------

TEST_P(SemaphoreTest, ExclusiveLockOfTheSameNameWaitsForAllPermitsAndStopsThem) {
  Semaphore semaphore{client, name, 2};
  Lock permit = semaphore.acquire().value();
  auto alone = in_background([&] { return other.acquire(name, {.wait = patience}); });
  ASSERT_TRUE(waiting(1));
  EXPECT_FALSE(semaphore.acquire(fail_fast()));
  permit.release();
  const Lock exclusive = result_of(alone).value();
  EXPECT_FALSE(semaphore.acquire(fail_fast()));
}

using RedisSemaphoreTest = LockFamilyFixture<OnRedis>;

TEST_F(RedisSemaphoreTest, LeavesNothingBesideAKeyThatIsNotOurs) {
  store.redis().command({"SET", key_of(name), "somebody else's"});
  EXPECT_FALSE((Semaphore{client, name, 2}.acquire(fail_fast())));
  EXPECT_FALSE(key_exists(store.redis(), key_of(name) + ":book"));
  store.redis().command({"DEL", key_of(name)});
}

TEST_P(SemaphoreTest, OutlivesItsClient) {
  auto brief = std::make_optional<LockClient>(store.uri(), as_new_runner());
  Semaphore kept{*brief, name, 1};
  brief.reset();
  const Lock permit = kept.acquire().value();
  kept.resize(2);
  EXPECT_TRUE(kept.acquire(fail_fast()));
}

}  // namespace
}  // namespace leasehold::testing
