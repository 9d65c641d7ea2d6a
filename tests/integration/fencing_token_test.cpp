// L2: tokens strictly grow with every grant, whatever happens to Redis' memory, and leave nothing
// behind for ever.
#include <gtest/gtest.h>

#include "tests/support/lock_test_helpers.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;

class FencingTokenTest : public ::testing::Test {
 protected:
  void TearDown() override { expect_nothing_left(redis); }

  FencingToken next_token() { return client.acquire("lock", {.wait = patience})->token(); }

  std::int64_t server_time_in_us() {
    const auto time = redis.command({"TIME"});
    return std::stoll(time.elements.at(0).string) * 1'000'000 +
           std::stoll(time.elements.at(1).string);
  }

  RedisServer redis;
  LockClient client{redis.uri(), as_new_runner()};
  LockClient other{redis.uri(), as_new_runner()};
};

TEST_F(FencingTokenTest, GrowsByOneWithEveryGrantWhoeverGetsIt) {
  const FencingToken first = next_token();
  for (std::uint64_t i = 1; i <= 100; ++i) {
    LockClient& next = i % 2 == 0 ? client : other;
    EXPECT_EQ(next.acquire("lock")->token().value, first.value + i);
  }
}

TEST_F(FencingTokenTest, StartsFromTheServersClock) {
  const std::int64_t before = server_time_in_us();
  const FencingToken token = next_token();
  EXPECT_GE(token.value, static_cast<std::uint64_t>(before));
  EXPECT_LE(token.value, static_cast<std::uint64_t>(server_time_in_us()));
}

TEST_F(FencingTokenTest, IsNotSpentOnRefusalsReentryAndHeartbeats) {
  const LockOptions reentrant{.wait = 0ms, .reentry = Reentry::allowed};
  FencingToken token;
  {
    Lock lock = client.acquire("lock", reentrant).value();
    token = lock.token();
    EXPECT_EQ(client.acquire("lock", reentrant)->token(), token);
    EXPECT_FALSE(other.acquire("lock", {.wait = 0ms}));
    EXPECT_EQ(lock.extend(), Ownership::held);
    EXPECT_EQ(lock.token(), token);
  }
  EXPECT_EQ(next_token().value, token.value + 1);
}

TEST_F(FencingTokenTest, SurvivesFlushAll) {
  FencingToken last = next_token();
  for (int i = 0; i < 20; ++i) {
    redis.command({"FLUSHALL"});
    const FencingToken next = next_token();
    EXPECT_GT(next, last);
    last = next;
  }
}

TEST_F(FencingTokenTest, SurvivesRestartWithoutData) {
  const FencingToken before = next_token();
  redis.restart(Data::lost);
  EXPECT_GT(next_token(), before);
}

TEST_F(FencingTokenTest, SurvivesRestartWithData) {
  const FencingToken before = next_token();
  redis.restart(Data::kept);
  EXPECT_EQ(next_token().value, before.value + 1);
}

TEST_F(FencingTokenTest, SurvivesScriptFlush) {
  const FencingToken before = next_token();
  Lock lock = client.acquire("lock").value();
  redis.command({"SCRIPT", "FLUSH"});
  EXPECT_EQ(lock.extend(), Ownership::held);
  EXPECT_EQ(lock.release(), Release::done);
  EXPECT_EQ(next_token().value, before.value + 2);
}

TEST_F(FencingTokenTest, SurvivesTheDeletionOfItsCounter) {
  FencingToken last = next_token();
  for (int i = 0; i < 100; ++i) {
    const FencingToken next = next_token();  // a grant after the clock was read
    ASSERT_GT(next, last);
    redis.command({"DEL", fence_key_of("lock")});
    last = next_token();
    ASSERT_GT(last, next);
  }
}

TEST_F(FencingTokenTest, CounterExpiresAndTheTokenStillGrows) {
  auto options = as_new_runner();
  options.keep_counters = 1s;
  LockClient brief{redis.uri(), options};
  const FencingToken before = brief.acquire("lock")->token();
  EXPECT_GT(redis.command({"PTTL", fence_key_of("lock")}).integer, 0);
  EXPECT_LE(redis.command({"PTTL", fence_key_of("lock")}).integer, 1'000);
  EXPECT_TRUE(eventually([&] { return redis.keys("*").empty(); }, patience));
  EXPECT_GT(brief.acquire("lock")->token(), before);
}

TEST_F(FencingTokenTest, CounterKeepsItsEndHoweverOftenItIsUsed) {
  // A lock that is taken all the time must not be the one that leaks.
  next_token();
  redis.command({"PEXPIRE", fence_key_of("lock"), "60000"});
  next_token();
  EXPECT_LE(redis.command({"PTTL", fence_key_of("lock")}).integer, 60'000);
  EXPECT_GT(redis.command({"PTTL", fence_key_of("lock")}).integer, 0);
}

TEST_F(FencingTokenTest, OfAHolderIsKnownAfterItsCounterIsGone) {
  Lock lock = client.acquire("lock").value();
  redis.command({"DEL", fence_key_of("lock")});
  EXPECT_EQ(lock.extend(), Ownership::held);
  EXPECT_EQ(other.status("lock")->token, lock.token());
  EXPECT_GT(other.acquire("lock", {.on_conflict = OnConflict::force})->token(), lock.token());
  EXPECT_EQ(lock.extend(), Ownership::lost);
}

}  // namespace
}  // namespace leasehold::testing
