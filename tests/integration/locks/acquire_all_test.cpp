// Several locks at once: all or none.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "tests/support/fault_proxy.hpp"
#include "tests/support/hooked_link.hpp"
#include "tests/support/lock_family.hpp"
#include "tests/support/lock_storm.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;
using Names = std::vector<std::string>;

static_assert(!std::is_copy_constructible_v<LockSet>);
static_assert(std::is_nothrow_move_constructible_v<LockSet>);
static_assert(std::is_nothrow_move_assignable_v<LockSet>);
static_assert(std::is_nothrow_destructible_v<LockSet>);

template <class Store>
class AcquireAllFixture : public LockFamilyFixture<Store> {
 protected:
  using LockFamilyFixture<Store>::name;
  using LockFamilyFixture<Store>::store;

  Names many(int number) const {
    Names names;
    for (int i = 0; i < number; ++i) names.push_back(name + ":" + std::to_string(100 + i));
    return names;
  }

  bool held(const std::string& which) const { return store.has_lock(which); }
  ::testing::AssertionResult waits_for(const std::string& which, std::int64_t number = 1) const {
    return eventually([&] { return store.in_line(which) == number; }, patience);
  }

  /// Nothing but token counters.
  void expect_nothing_left_here() const { store.expect_nothing_left_of(name); }
  const std::string a = name + ":a";
  const std::string b = name + ":b";
  const std::string c = name + ":c";
};

class AcquireAllTest : public AcquireAllFixture<OnEveryLockStore> {};
ON_EVERY_STORE(AcquireAllTest);

class AcquireAllProcessTest : public AcquireAllFixture<OnEveryLockStore> {};
ON_STORES_BETWEEN_PROCESSES(AcquireAllProcessTest);

class RedisAcquireAllTest : public AcquireAllFixture<OnRedis> {
 protected:
  ::testing::AssertionResult nothing_is_left_in_the_end() const {
    return eventually(
        [&] {
          const auto keys = redis.keys("lh:{" + name + "*");
          return std::all_of(keys.begin(), keys.end(),
                             [](const std::string& key) { return key.ends_with(":fence"); });
        },
        patience);
  }

  RedisEndpoint& redis = store.redis();
};

TEST_P(AcquireAllTest, TakesAllOfThem) {
  LockSet set =
      client.acquire_all({c, a, b, a}, {.ttl = 30s, .metadata = {{"why", "test"}}}).value();
  ASSERT_EQ(set.locks().size(), 3U);
  EXPECT_EQ(set.locks()[0].name(), a);
  EXPECT_EQ(set.locks()[1].name(), b);
  EXPECT_EQ(set.locks()[2].name(), c);
  EXPECT_EQ(set.at(b).name(), b);
  EXPECT_THROW(set.at("none of them"), std::out_of_range);
  EXPECT_TRUE(set.valid());
  EXPECT_FALSE(set.lost().stop_requested());
  for (const std::string& each : {a, b, c}) {
    EXPECT_FALSE(other.acquire(each, fail_fast()));
    EXPECT_EQ(other.status(each)->metadata.at("why"), "test");
    EXPECT_EQ(other.status(each)->token, set.at(each).token());
  }
  EXPECT_EQ(client.stats().held, 3U);
  EXPECT_EQ(set.release(), Release::done);
  EXPECT_FALSE(set.valid());
  EXPECT_EQ(set.release(), Release::done);
  EXPECT_EQ(client.stats().held, 0U);
  expect_nothing_left_here();
}

TEST_P(AcquireAllTest, TokensOfEachLockGrow) {
  std::map<std::string, FencingToken> last;
  for (int round = 0; round < 3; ++round) {
    const LockSet set = client.acquire_all({a, b}).value();
    for (const Lock& lock : set.locks()) {
      EXPECT_GT(lock.token(), last[lock.name()]);
      last[lock.name()] = lock.token();
    }
  }
}

TEST_P(AcquireAllTest, DestructorAndAssignmentReleaseAll) {
  {
    LockSet set = client.acquire_all({a, b}).value();
    set = client.acquire_all({c}).value();
    EXPECT_FALSE(held(a));
    EXPECT_FALSE(held(b));
    LockSet moved = std::move(set);
    EXPECT_TRUE(moved.valid());
    EXPECT_TRUE(held(c));
  }
  expect_nothing_left_here();
}

TEST_P(AcquireAllTest, OutlivesItsClient) {
  auto brief = std::make_optional<LockClient>(store.uri(), as_new_runner());
  LockSet set = brief->acquire_all({a, b}, {.ttl = 30s}).value();
  brief.reset();
  EXPECT_TRUE(set.valid());
  EXPECT_EQ(set.locks()[0].extend(), Ownership::held);
  EXPECT_EQ(set.release(), Release::done);
}

TEST_P(AcquireAllTest, TakesNoneIfOneIsBusy) {
  const Lock busy = other.acquire(b).value();
  const auto refused = client.acquire_all({a, b, c}, fail_fast());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.refusal().reason, RefusalReason::busy);
  ASSERT_TRUE(refused.refusal().holder);
  EXPECT_EQ(refused.refusal().holder->name, b);
  EXPECT_EQ(refused.refusal().holder->runner, other.runner().str());
  EXPECT_FALSE(held(a));
  EXPECT_FALSE(held(c));
  EXPECT_EQ(client.stats().held, 0U);
}

TEST_P(AcquireAllTest, RefusesBadInput) {
  const auto refuses = [&](const Names& names, const LockOptions& options = {}) {
    EXPECT_THROW((void)client.acquire_all(names, options), InvalidArgument);
  };
  refuses({});
  refuses(many(65));
  refuses({a, ""});
  refuses({a, "{b}"});
  refuses({a, std::string(513, 'x')});
  refuses({a}, {.ttl = 0s});
  refuses({a}, {.wait = -1s});
  refuses({a}, {.on_conflict = OnConflict::retry});
  refuses({a}, {.on_conflict = OnConflict::steal_stale});
  refuses({a}, {.on_conflict = OnConflict::force});
  refuses({a}, {.reentry = Reentry::allowed});
  EXPECT_TRUE(client.acquire_all(many(64), fail_fast()));
  expect_nothing_left_here();
}

TEST_P(AcquireAllTest, TakesOverFromHoldersThatVanished) {
  for (const std::string& each : {a, b, c}) {
    const Lock lock = other.acquire(each, {.ttl = 50ms, .heartbeat = Heartbeat::manual}).value();
    ASSERT_TRUE(wait_for_stop(lock.lost()));
  }
  ASSERT_TRUE(eventually([&] { return other.status(c)->state == LockState::stale; }, patience));
  const LockSet set = client.acquire_all({a, b, c}, fail_fast()).value();
  EXPECT_TRUE(set.valid());
  EXPECT_GE(client.stats().takeovers, 3U);
}

// --- Waiting -----------------------------------------------------------------------------------

TEST_P(AcquireAllTest, HoldsNothingWhileItWaits) {
  Lock busy = other.acquire(b).value();
  auto all = in_background([&] { return client.acquire_all({a, b, c}, {.wait = patience}); });
  ASSERT_TRUE(waits_for(b));
  EXPECT_FALSE(held(a));
  EXPECT_FALSE(held(c));
  // Others come and go meanwhile.
  EXPECT_TRUE(other.acquire(a, fail_fast()));
  busy.release();
  EXPECT_TRUE(result_of(all)->valid());
}

TEST_P(AcquireAllTest, WaitsForOneAfterTheOtherWithoutHoldingAny) {
  Lock first = other.acquire(b).value();
  Lock second = other.acquire(c).value();
  auto all = in_background([&] { return client.acquire_all({c, b, a}, {.wait = patience}); });
  ASSERT_TRUE(waits_for(b));
  first.release();
  ASSERT_TRUE(waits_for(c));
  EXPECT_FALSE(held(a));
  EXPECT_FALSE(held(b));
  second.release();
  EXPECT_TRUE(result_of(all)->valid());
}

TEST_P(AcquireAllTest, CancellingLeavesNothing) {
  Lock busy = other.acquire(b).value();
  std::stop_source enough;
  auto all = in_background([&] {
    return client.acquire_all({a, b, c}, {.wait = patience}, enough.get_token());
  });
  ASSERT_TRUE(waits_for(b));
  enough.request_stop();
  EXPECT_EQ(result_of(all).refusal().reason, RefusalReason::cancelled);
  busy.release();
  expect_nothing_left_here();

  const auto at_once = client.acquire_all({a, b, c}, {}, enough.get_token());
  EXPECT_EQ(at_once.refusal().reason, RefusalReason::cancelled);
  EXPECT_EQ(events->count(LockEventType::acquired, a), events->count(LockEventType::released, a));
  expect_nothing_left_here();
}

TEST_P(AcquireAllTest, RunningOutOfTimeLeavesNothing) {
  Lock busy = other.acquire(b).value();
  const auto began = Clock::now();
  const auto refused = client.acquire_all({a, b, c}, {.wait = 100ms});
  EXPECT_GE(Clock::now() - began, 100ms);
  EXPECT_EQ(refused.refusal().reason, RefusalReason::busy);
  busy.release();
  expect_nothing_left_here();
}

TEST_P(AcquireAllTest, EventsOfEachLockHaveABeginningAndAnEnd) {
  const Lock busy = other.acquire(b).value();
  EXPECT_FALSE(client.acquire_all({a, b, c}, fail_fast()));
  for (const std::string& each : {a, b, c}) {
    EXPECT_GE(events->count(LockEventType::acquiring, each), 1U);
    EXPECT_EQ(events->count(LockEventType::failed, each), 1U);
    EXPECT_EQ(events->count(LockEventType::acquired, each),
              events->count(LockEventType::released, each));
  }
  EXPECT_EQ(client.stats().failures, 3U);
  EXPECT_EQ(client.stats().held, 0U);
  EXPECT_EQ(client.stats().waiting, 0U);
}

TEST_P(AcquireAllTest, OppositeOrdersDoNotDeadlock) {
  std::vector<std::future<void>> threads;
  int inside = 0;  // under both locks only; TSan watches
  for (int i = 0; i < 6; ++i) {
    threads.push_back(in_background([&, i] {
      LockClient& mine = i % 3 == 0 ? other : client;
      for (int round = 0; round < 10; ++round) {
        const Names names = i % 2 == 0 ? Names{a, b} : Names{b, a};
        const LockSet set = mine.acquire_all(names, {.wait = patience}).value();
        ++inside;
      }
    }));
  }
  for (auto& thread : threads) result_of(thread);
  EXPECT_EQ(inside, 60);
}

TEST_P(AcquireAllProcessTest, OverlappingSetsOfManyProcessesAllComeThrough) {
  const StormReport report = run_storm(store, name, 4, 4, 12, {"sets", "6", "seed"});
  EXPECT_EQ(report.rounds, 4 * 4 * 12);
  EXPECT_EQ(report.violations, 0);
  EXPECT_LT(report.longest_wait_ms, 60'000);
  RecordProperty("longest_wait_ms", std::to_string(report.longest_wait_ms));
}

// --- Cost --------------------------------------------------------------------------------------

TEST_F(RedisAcquireAllTest, OneRoundTripForManyAndOneToReleaseThem) {
  auto link = std::make_shared<HookedLink>(store.uri());
  LockClient lent{link, as_new_runner()};
  EXPECT_TRUE(lent.acquire_all({a, b}));  // the scripts are loaded
  const int before = link->round_trips();
  LockSet set = lent.acquire_all(many(32)).value();
  EXPECT_EQ(link->round_trips() - before, 1);
  EXPECT_EQ(set.release(), Release::done);
  EXPECT_EQ(link->round_trips() - before, 2);
}

TEST_F(RedisAcquireAllTest, OneRoundTripOnTheWireToo) {
  FaultProxy proxy{redis.port()};
  LockClient far{redis.uri_through(proxy.port()), as_new_runner()};
  EXPECT_TRUE(far.acquire_all({a, b}));
  proxy.set_delay(200ms);
  const auto began = Clock::now();
  const LockSet set = far.acquire_all(many(32)).value();
  const auto took = Clock::now() - began;
  EXPECT_GE(took, 400ms);
  EXPECT_LT(took, 8s);  // 32 of them would take 13 s
  proxy.set_delay(0ms);
}

// --- Loss --------------------------------------------------------------------------------------

TEST_P(AcquireAllTest, LossOfAnyOneIsALossOfTheSet) {
  LockSet set = client.acquire_all({a, b, c}, {.ttl = 60s}).value();
  ASSERT_TRUE(other.force_release(b));
  EXPECT_TRUE(wait_for_stop(set.lost()));
  EXPECT_FALSE(set.valid());
  EXPECT_EQ(set.at(b).loss_reason(), LossReason::vanished);
  EXPECT_TRUE(set.at(a).valid());  // each stays what it is until the set is released
  EXPECT_TRUE(held(a));
  EXPECT_EQ(set.release(), Release::was_lost);
  expect_nothing_left_here();
}

TEST_P(AcquireAllTest, LossOfAWaitedForOneIsALossOfTheSet) {
  Lock busy = other.acquire(b).value();
  auto all = in_background([&] {
    return client.acquire_all({a, b, c}, {.ttl = 60s, .wait = patience});
  });
  ASSERT_TRUE(waits_for(b));
  busy.release();
  const LockSet set = result_of(all).value();
  ASSERT_TRUE(other.force_release(b));
  EXPECT_TRUE(wait_for_stop(set.lost()));
}

TEST_P(AcquireAllTest, CallbackIsCalledForTheOneThatIsLost) {
  Signal called;
  std::string lost;
  const LockSet set = client
                          .acquire_all({a, b}, {.on_lost =
                                                    [&, called](const LockLoss& loss) {
                                                      lost = loss.name;
                                                      called.set();
                                                    }})
                          .value();
  ASSERT_TRUE(other.force_release(a));
  ASSERT_TRUE(called.wait());
  EXPECT_EQ(lost, a);
  EXPECT_TRUE(set.lost().stop_requested());
}

// --- A bad network -----------------------------------------------------------------------------

class AcquireAllFaultTest : public RedisAcquireAllTest {
 protected:
  static LockClientOptions impatient() {
    auto options = as_new_runner();
    options.redis.command_timeout = 400ms;
    return options;
  }

  FaultProxy proxy{shared_redis().port()};
  LockClient far{redis.uri_through(proxy.port()), as_new_runner()};
};

TEST_F(AcquireAllFaultTest, LostReplyIsLookedIntoEvenWithoutTimeToWait) {
  ASSERT_TRUE(far.acquire_all({a, b}));
  proxy.swallow_next_reply(FaultProxy::Then::cut, b);
  LockSet set = far.acquire_all({a, b, c}, fail_fast()).value();
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_TRUE(set.valid());
  for (Lock& lock : set.locks()) EXPECT_EQ(lock.extend(), Ownership::held);
  EXPECT_EQ(set.release(), Release::done);
  EXPECT_TRUE(nothing_is_left_in_the_end());
}

TEST_F(AcquireAllFaultTest, LostReplyOfAReleaseIsLookedInto) {
  LockSet set = far.acquire_all({a, b, c}).value();
  proxy.swallow_next_reply(FaultProxy::Then::cut, a);
  EXPECT_EQ(set.release(), Release::done);
  EXPECT_TRUE(proxy.wait_swallowed());
  expect_nothing_left_here();
}

TEST_F(AcquireAllFaultTest, RequestsThatNeverGetAnAnswerLeaveNothingInTheEnd) {
  LockClient hasty{redis.uri_through(proxy.port()), impatient()};
  ASSERT_TRUE(hasty.acquire_all({a, b}));
  proxy.blackhole(true);
  EXPECT_THROW((void)hasty.acquire_all({a, b, c}, fail_fast()), Error);
  proxy.blackhole(false);  // now they arrive
  EXPECT_TRUE(nothing_is_left_in_the_end());
  // It waits, for a moment may still pass before the link tries to connect again.
  EXPECT_TRUE(hasty.acquire_all({a, b, c}, {.wait = patience}));
}

TEST_F(AcquireAllFaultTest, WaitsForARedisThatIsAway) {
  proxy.refuse(true);
  EXPECT_THROW((void)far.acquire_all({a, b}, fail_fast()), Unavailable);
  EXPECT_THROW((void)far.acquire_all({a, b}, {.wait = 50ms}), Unavailable);
  EXPECT_EQ(far.stats().failures, 4U);
  auto all = in_background([&] { return far.acquire_all({a, b}, {.wait = patience}); });
  std::stop_source enough;
  auto cancelled = in_background([&] {
    return far.acquire_all({a, b}, {.wait = patience}, enough.get_token());
  });
  enough.request_stop();
  EXPECT_EQ(result_of(cancelled).refusal().reason, RefusalReason::cancelled);
  proxy.refuse(false);
  EXPECT_TRUE(result_of(all)->valid());
}

TEST_F(AcquireAllFaultTest, DestructorOfManyWaitsForOneTimeOutOnly) {
  RedisServer own;
  LockClient lonely{own.uri(), impatient()};
  auto set = std::make_optional(lonely.acquire_all(many(32), {.ttl = 30s}).value());
  own.pause();
  const auto began = Clock::now();
  set.reset();
  EXPECT_LT(Clock::now() - began, 12s);  // one by one it would be 25 s
  own.resume();
  EXPECT_TRUE(eventually([&] { return own.keys("lh:*}").empty(); }, patience));
}

}  // namespace
}  // namespace leasehold::testing
