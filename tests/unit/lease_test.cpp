// One grant, as the holder sees it.
#include <gtest/gtest.h>

#include "locks/lease.hpp"
#include "tests/support/eventually.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

Lease lease_for(std::chrono::milliseconds ttl, std::chrono::milliseconds max_hold = 0ms) {
  return {LeaseTerms{.name = "lock", .owner = "owner", .ttl = ttl, .max_hold = max_hold},
          LockGrant{.token = {7}}, steady_clock::now()};
}

TEST(LeaseTest, IsTrustedLessLongThanTheServerHoldsIt) {
  const auto before = steady_clock::now();
  const Lease lease = lease_for(10s);
  EXPECT_TRUE(lease.valid());
  EXPECT_GE(lease.valid_until(), before + 10s - 102ms);
  EXPECT_LE(lease.valid_until(), steady_clock::now() + 10s - 102ms);
  EXPECT_LT(lease.give_up_at(), lease.valid_until());
}

TEST(LeaseTest, RenewalProlongsTrustFromWhenItWasSent) {
  Lease lease = lease_for(10s);
  const auto sent = steady_clock::now() + 1s;
  lease.renewed(lease.next_renewal().value(), sent);
  EXPECT_EQ(lease.valid_until(), sent + 10s - 102ms);
  // One that was sent earlier and answered later does not take it back.
  lease.renewed(lease.next_renewal().value(), sent - 500ms);
  EXPECT_EQ(lease.valid_until(), sent + 10s - 102ms);
}

TEST(LeaseTest, TrustThatHasEndedDoesNotComeBack) {
  Lease lease = lease_for(20ms);
  auto renewal = lease.next_renewal().value();
  ASSERT_TRUE(eventually([&] { return !lease.valid(); }));
  renewal.ttl = 10s;
  lease.renewed(renewal, steady_clock::now());
  EXPECT_FALSE(lease.valid());
}

TEST(LeaseTest, IsTrustedFromTheMomentTheRequestWasSent) {
  const LeaseTerms terms{.name = "lock", .owner = "owner", .ttl = 60s};
  const auto sent = steady_clock::now() - 30s;
  const Lease lease{terms, LockGrant{}, sent};
  EXPECT_TRUE(lease.valid());
  EXPECT_LT(lease.valid_until(), sent + 60s);
  EXPECT_FALSE((Lease{terms, LockGrant{}, sent - 30s}.valid()));
}

TEST(LeaseTest, LapsesWhenSomebodyWasToldThatItIsOver) {
  Lease lease{LeaseTerms{.name = "lock", .owner = "owner", .ttl = 60s}, LockGrant{},
              steady_clock::now() - 60s};
  EXPECT_FALSE(lease.lapsed()) << "nobody has asked";
  EXPECT_FALSE(lease.valid());
  EXPECT_TRUE(lease.lapsed());
  EXPECT_TRUE(lease.end_lost(LossReason::expired)) << "the loss is still to be announced";
}

TEST(LeaseTest, EndsOnce) {
  Lease released = lease_for(10s);
  EXPECT_TRUE(released.end_released());
  EXPECT_FALSE(released.end_lost(LossReason::taken));
  EXPECT_EQ(released.loss_reason(), LossReason::none);

  Lease lost = lease_for(10s);
  EXPECT_TRUE(lost.end_lost(LossReason::vanished));
  EXPECT_FALSE(lost.end_lost(LossReason::taken));
  EXPECT_FALSE(lost.end_released());
  EXPECT_EQ(lost.loss_reason(), LossReason::vanished);
  EXPECT_FALSE(lost.valid());
}

TEST(LeaseTest, MaxHoldBoundsEveryRenewal) {
  const Lease lease = lease_for(10s, 2s);
  EXPECT_LE(lease.valid_until(), steady_clock::now() + 2s);
  EXPECT_FALSE(lease.next_renewal()) << "it reaches as far as it may";
  const Lease longer = lease_for(10s, 10'005ms);
  ASSERT_TRUE(
      eventually([&] { return longer.next_renewal() && longer.next_renewal()->ttl < 10s; }));
}

}  // namespace
}  // namespace leasehold::testing
