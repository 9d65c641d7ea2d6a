// L2: tokens strictly grow with every grant, whatever happens to the store's memory, and leave
// nothing behind for ever.
#include <gtest/gtest.h>

#include "tests/support/lock_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;

template <class Store>
class FencingTokenFixture : public Store {
 protected:
  void TearDown() override { this->store.expect_nothing_left(); }

  FencingToken next_token() { return client.acquire("lock", {.wait = patience})->token(); }

  std::uint64_t time_in_us() const {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(this->store.now().time_since_epoch())
            .count());
  }

  LockClient client{this->store.uri(), as_new_runner()};
  LockClient other{this->store.uri(), as_new_runner()};
};

class FencingTokenTest : public FencingTokenFixture<OnEveryLockStoreOfItsOwn> {};
ON_EVERY_STORE(FencingTokenTest);

class RedisFencingTokenTest : public ::testing::Test {
 protected:
  void TearDown() override { expect_nothing_left(redis); }

  FencingToken next_token() { return client.acquire("lock", {.wait = patience})->token(); }

  RedisServer redis;
  LockClient client{redis.uri(), as_new_runner()};
  LockClient other{redis.uri(), as_new_runner()};
};

TEST_P(FencingTokenTest, GrowsWithEveryGrantWhoeverGetsIt) {
  FencingToken last = next_token();
  for (int i = 0; i < 100; ++i) {
    const FencingToken next = (i % 2 == 0 ? client : other).acquire("lock")->token();
    ASSERT_GT(next, last);
    last = next;
  }
}

TEST_F(RedisFencingTokenTest, GrowsByOneWithEveryGrantWhoeverGetsIt) {
  next_token();
  other.acquire("lock").value().release();
  const FencingToken first = next_token();  // both are connected: see the scripts' `least`
  for (std::uint64_t i = 1; i <= 100; ++i) {
    LockClient& next = i % 2 == 0 ? client : other;
    EXPECT_EQ(next.acquire("lock")->token().value, first.value + i);
  }
}

TEST_P(FencingTokenTest, StartsFromTheStoresClock) {
  const auto before = time_in_us();
  const FencingToken token = next_token();
  EXPECT_GE(token.value, before);
  EXPECT_LE(token.value, time_in_us());
}

TEST_P(FencingTokenTest, IsNotSpentOnRefusalsReentryAndHeartbeats) {
  const LockOptions reentrant{.reentry = Reentry::allowed, .wait = 0ms};
  FencingToken token;
  {
    Lock lock = client.acquire("lock", reentrant).value();
    token = lock.token();
    EXPECT_EQ(client.acquire("lock", reentrant)->token(), token);
    EXPECT_FALSE(other.acquire("lock", {.wait = 0ms}));
    EXPECT_EQ(lock.extend(), Ownership::held);
    EXPECT_EQ(lock.token(), token);
  }
  const FencingToken next = next_token();
  EXPECT_GT(next, token);
  // Redis counts: there it can be seen.
  EXPECT_TRUE(!store.is_redis() || next.value == token.value + 1);
}

TEST_P(FencingTokenTest, SurvivesTheLossOfAllData) {
  FencingToken last = next_token();
  for (int i = 0; i < 20; ++i) {
    store.lose_all_data();
    const FencingToken next = next_token();
    EXPECT_GT(next, last);
    last = next;
  }
}

TEST_F(RedisFencingTokenTest, SurvivesRestartWithoutData) {
  const FencingToken before = next_token();
  redis.restart(Data::lost);
  EXPECT_GT(next_token(), before);
}

TEST_F(RedisFencingTokenTest, SurvivesRestartWithData) {
  const FencingToken before = next_token();
  redis.restart(Data::kept);
  EXPECT_GT(next_token(), before);
}

TEST_F(RedisFencingTokenTest, SurvivesScriptFlush) {
  const FencingToken before = next_token();
  Lock lock = client.acquire("lock").value();
  redis.command({"SCRIPT", "FLUSH"});
  EXPECT_EQ(lock.extend(), Ownership::held);
  EXPECT_EQ(lock.release(), Release::done);
  EXPECT_EQ(next_token().value, before.value + 2);
}

TEST_P(FencingTokenTest, SurvivesTheDeletionOfItsCounter) {
  FencingToken last = next_token();
  for (int i = 0; i < 100; ++i) {
    const FencingToken next = next_token();  // a grant after the clock was read
    ASSERT_GT(next, last);
    store.forget_token("lock");
    last = next_token();
    ASSERT_GT(last, next);
  }
}

TEST_P(FencingTokenTest, IsForgottenInTheEndAndStillGrows) {
  store.repeat_if_stalled(200ms, [&] {
    auto options = as_new_runner();
    options.keep_counters = 1s;
    LockClient brief{store.uri(), options};
    const FencingToken before = brief.acquire("lock")->token();
    EXPECT_TRUE(store.has_token("lock"));
    // Embedded, the users of locks clean up.
    EXPECT_TRUE(eventually(
        [&] {
          if (!store.is_redis()) brief.acquire("another");
          return !store.has_token("lock");
        },
        patience));
    EXPECT_GT(brief.acquire("lock")->token(), before);
  });
}

TEST_F(RedisFencingTokenTest, CounterKeepsItsEndHoweverOftenItIsUsed) {
  // A lock that is taken all the time must not be the one that leaks.
  next_token();
  redis.command({"PEXPIRE", fence_key_of("lock"), "60000"});
  next_token();
  EXPECT_LE(redis.command({"PTTL", fence_key_of("lock")}).integer, 60'000);
  EXPECT_GT(redis.command({"PTTL", fence_key_of("lock")}).integer, 0);
}

TEST_P(FencingTokenTest, OfAHolderIsKnownAfterItsCounterIsGone) {
  Lock lock = client.acquire("lock").value();
  store.forget_token("lock");
  EXPECT_EQ(lock.extend(), Ownership::held);
  EXPECT_EQ(other.status("lock")->token, lock.token());
  EXPECT_GT(other.acquire("lock", {.on_conflict = OnConflict::force})->token(), lock.token());
  EXPECT_EQ(lock.extend(), Ownership::lost);
}

}  // namespace
}  // namespace leasehold::testing
