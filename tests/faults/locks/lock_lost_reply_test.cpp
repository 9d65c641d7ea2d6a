// L3 and L6 when replies and requests are lost on the way: success never turns into "lost", and
// nothing stays behind.
#include <gtest/gtest.h>

#include "tests/support/lock_network_fixture.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;
using Then = FaultProxy::Then;

class LostReplyTest : public LockNetworkTest, public ::testing::WithParamInterface<Then> {};

INSTANTIATE_TEST_SUITE_P(Network, LostReplyTest, ::testing::Values(Then::cut, Then::hang),
                         [](const auto& tested) {
                           return tested.param == Then::cut ? "ConnectionCut" : "ConnectionHangs";
                         });

TEST_P(LostReplyTest, OfAcquireIsResolvedByOwner) {
  proxy.swallow_next_reply(GetParam(), fence_key_of("lock"));
  Lock lock = client->acquire("lock", {.wait = patience}).value();
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_EQ(lock.token().value, before.value + 1) << "granted twice";
  EXPECT_TRUE(lock.valid());
  EXPECT_FALSE(lock.took_over_from());
  expect_trust_ends_before_the_servers(lock);
  EXPECT_EQ(lock.extend(), Ownership::held);
  EXPECT_EQ(lock.release(), Release::done);
  EXPECT_FALSE(is_locked());
}

TEST_P(LostReplyTest, OfAcquireIsResolvedEvenWithoutTimeToWait) {
  proxy.swallow_next_reply(GetParam(), fence_key_of("lock"));
  const Lock lock = client->acquire("lock", {.on_conflict = OnConflict::fail_fast}).value();
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_EQ(lock.token().value, before.value + 1);
}

TEST_P(LostReplyTest, OfARefusedAcquireIsARefusal) {
  const Lock lock = outside.acquire("lock").value();
  proxy.swallow_next_reply(GetParam(), fence_key_of("lock"));
  const auto refused = client->acquire("lock", {.on_conflict = OnConflict::fail_fast});
  EXPECT_TRUE(proxy.wait_swallowed());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.refusal().holder->runner, outside.runner().str());
}

TEST_P(LostReplyTest, ButTheRequestOfAcquireWasLostToo) {
  proxy.swallow_next_request(GetParam(), fence_key_of("lock"));
  Lock lock = client->acquire("lock", {.wait = patience}).value();
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_GT(lock.token(), before);
  expect_trust_ends_before_the_servers(lock);
}

/// Not the owner: a client that begins to listen about now asks for its locks too.
const std::string in_renewals = "\"renewals\":";

TEST_P(LostReplyTest, OfExtendIsNoLoss) {
  Lock lock = client->acquire("lock", {.heartbeat = Heartbeat::manual}).value();
  const auto trusted = lock.valid_until();
  proxy.swallow_next_reply(GetParam(), in_renewals);
  EXPECT_EQ(lock.extend(), Ownership::unknown);
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_TRUE(lock.valid());
  EXPECT_FALSE(lock.lost().stop_requested());
  // Not prolonged. Counted on another clock, it is the same to within some microseconds only.
  EXPECT_LT(lock.valid_until(), trusted + 50ms);
  EXPECT_TRUE(eventually([&] { return lock.extend() == Ownership::held; }));
  EXPECT_GT(lock.valid_until(), trusted);
  expect_trust_ends_before_the_servers(lock);
}

TEST_P(LostReplyTest, OfAHeartbeatIsNoLoss) {
  repeat_if_stalled(1s, [&] {
    const auto failed = events->count(LockEventType::heartbeat_failed);
    const auto lost = events->count(LockEventType::lost);
    Lock lock = client->acquire("lock", {.ttl = 6s}).value();
    proxy.swallow_next_reply(GetParam(), in_renewals);
    ASSERT_TRUE(events->wait_for(LockEventType::heartbeat_failed, failed + 1));
    const auto beats = events->count(LockEventType::heartbeat);
    EXPECT_TRUE(events->wait_for(LockEventType::heartbeat, beats + 1));
    EXPECT_TRUE(lock.valid());
    EXPECT_EQ(events->count(LockEventType::lost), lost);
    EXPECT_EQ(lock.release(), Release::done);
  });
}

TEST_P(LostReplyTest, OfReleaseIsARelease) {
  Lock lock = client->acquire("lock").value();
  proxy.swallow_next_reply(GetParam(), lock.owner());
  EXPECT_EQ(lock.release(), Release::done);
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_FALSE(is_locked());
}

TEST_P(LostReplyTest, ButTheRequestOfReleaseWasLostToo) {
  Lock lock = client->acquire("lock").value();
  proxy.swallow_next_request(GetParam(), lock.owner());
  EXPECT_EQ(lock.release(), Release::done);
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_FALSE(is_locked());
}

TEST_P(LostReplyTest, OfAcquireThatThenFailsIsCleanedUpWhenRedisIsBack) {
  proxy.refuse(true);
  proxy.swallow_next_reply(GetParam(), fence_key_of("lock"));
  EXPECT_THROW(client->acquire("lock", {.on_conflict = OnConflict::fail_fast}), OutcomeUnknown);
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_TRUE(is_locked());
  proxy.refuse(false);
  EXPECT_TRUE(eventually([&] { return !is_locked(); }));
}

}  // namespace
}  // namespace leasehold::testing
