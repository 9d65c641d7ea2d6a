// One grant, as the holder sees it.
#include <gtest/gtest.h>

#include "locks/grant.hpp"
#include "tests/support/eventually.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;

Grant grant_for(std::chrono::milliseconds ttl, std::chrono::milliseconds max_hold = 0ms) {
  return {GrantTerms{.name = "lock", .owner = "owner", .ttl = ttl, .max_hold = max_hold},
          Granted{.token = {7}}, BootClock::now()};
}

TEST(GrantTest, IsTrustedLessLongThanTheServerHoldsIt) {
  const auto before = BootClock::now();
  const Grant grant = grant_for(10s);
  EXPECT_TRUE(grant.valid());
  EXPECT_GE(grant.valid_until(), before + 10s - 102ms);
  EXPECT_LE(grant.valid_until(), BootClock::now() + 10s - 102ms);
  EXPECT_LT(grant.give_up_at(), grant.valid_until());
}

TEST(GrantTest, RenewalProlongsTrustFromWhenItWasSent) {
  Grant grant = grant_for(10s);
  const auto sent = BootClock::now() + 1s;
  grant.renewed(grant.next_renewal().value(), sent);
  EXPECT_EQ(grant.valid_until(), sent + 10s - 102ms);
  // One that was sent earlier and answered later does not take it back.
  grant.renewed(grant.next_renewal().value(), sent - 500ms);
  EXPECT_EQ(grant.valid_until(), sent + 10s - 102ms);
}

TEST(GrantTest, TrustThatHasEndedDoesNotComeBack) {
  Grant grant = grant_for(20ms);
  auto renewal = grant.next_renewal().value();
  ASSERT_TRUE(eventually([&] { return !grant.valid(); }));
  renewal.ttl = 10s;
  grant.renewed(renewal, BootClock::now());
  EXPECT_FALSE(grant.valid());
}

TEST(GrantTest, IsTrustedFromTheMomentTheRequestWasSent) {
  const GrantTerms terms{.name = "lock", .owner = "owner", .ttl = 60s};
  const auto sent = BootClock::now() - 30s;
  const Grant grant{terms, Granted{}, sent};
  EXPECT_TRUE(grant.valid());
  EXPECT_LT(grant.valid_until(), sent + 60s);
  EXPECT_FALSE((Grant{terms, Granted{}, sent - 30s}.valid()));
}

TEST(GrantTest, LapsesWhenSomebodyWasToldThatItIsOver) {
  Grant grant{GrantTerms{.name = "lock", .owner = "owner", .ttl = 60s}, Granted{},
              BootClock::now() - 60s};
  EXPECT_FALSE(grant.lapsed()) << "nobody has asked";
  EXPECT_FALSE(grant.valid());
  EXPECT_TRUE(grant.lapsed());
  EXPECT_TRUE(grant.end_lost(LossReason::expired)) << "the loss is still to be announced";
}

TEST(GrantTest, EndsOnce) {
  Grant released = grant_for(10s);
  EXPECT_TRUE(released.end_released());
  EXPECT_FALSE(released.end_lost(LossReason::taken));
  EXPECT_EQ(released.loss_reason(), LossReason::none);

  Grant lost = grant_for(10s);
  EXPECT_TRUE(lost.end_lost(LossReason::vanished));
  EXPECT_FALSE(lost.end_lost(LossReason::taken));
  EXPECT_FALSE(lost.end_released());
  EXPECT_EQ(lost.loss_reason(), LossReason::vanished);
  EXPECT_FALSE(lost.valid());
}

TEST(GrantTest, MaxHoldBoundsEveryRenewal) {
  const Grant grant = grant_for(10s, 2s);
  EXPECT_LE(grant.valid_until(), BootClock::now() + 2s);
  EXPECT_FALSE(grant.next_renewal()) << "it reaches as far as it may";
  const Grant longer = grant_for(10s, 10'005ms);
  ASSERT_TRUE(
      eventually([&] { return longer.next_renewal() && longer.next_renewal()->ttl < 10s; }));
}

}  // namespace
}  // namespace leasehold::testing
