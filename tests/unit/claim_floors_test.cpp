// Where leases begin to look: never so that something is lost, and not from the head each time.
#include "postgres/claim_floors.hpp"

#include <gtest/gtest.h>

namespace leasehold::postgres {
namespace {

using namespace std::chrono_literals;

class ClaimFloorsTest : public ::testing::Test {
 protected:
  static constexpr ClaimPlace first{0, 1000, 1};
  static constexpr ClaimPlace second{0, 2000, 2};
  static constexpr ClaimPlace third{0, 3000, 3};

  ClaimPlace floor() { return floors.floor_of("t", now); }
  void full(ClaimPlace last, bool satisfied, ClaimFloors::Clock::duration took) {
    floors.learn("t", {ClaimFloors::none, last, satisfied, took}, now);
  }
  void floored(ClaimPlace used, ClaimPlace last) {
    floors.learn("t", {used, last, true, 1ms}, now);
  }

  ClaimFloors floors;
  ClaimFloors::Clock::time_point now = ClaimFloors::Clock::now();
};

TEST_F(ClaimFloorsTest, BeginsAtTheHead) { EXPECT_EQ(floor(), ClaimFloors::none); }

TEST_F(ClaimFloorsTest, InALongQueueGoesOnBehindTheLast) {
  full(first, true, 1ms);
  EXPECT_EQ(floor(), first);
  floored(first, second);
  EXPECT_EQ(floor(), second);
  EXPECT_EQ(floors.floor_of("another type", now), ClaimFloors::none);
}

TEST_F(ClaimFloorsTest, LooksFromTheHeadAgainAfterTwentyTimesAsLong) {
  full(first, true, 1ms);
  now += 19ms;
  EXPECT_EQ(floor(), first);
  now += 2ms;
  EXPECT_EQ(floor(), ClaimFloors::none) << "one looks from the head";
  EXPECT_EQ(floor(), first) << "the others need not at the same time";
}

TEST_F(ClaimFloorsTest, SlowScansAreMadeAtMostEveryFiveSeconds) {
  full(first, true, 10s);
  now += 4999ms;
  EXPECT_EQ(floor(), first);
  now += 2ms;
  EXPECT_EQ(floor(), ClaimFloors::none);
}

TEST_F(ClaimFloorsTest, AShortQueueNeedsNoFloor) {
  full(first, true, 1ms);
  now += 1s;
  full(second, false, 1ms);
  EXPECT_EQ(floor(), ClaimFloors::none);
}

TEST_F(ClaimFloorsTest, AShortQueueBehindManyDeadEntriesDoes) {
  full(second, false, 100ms);
  EXPECT_EQ(floor(), second);
  EXPECT_FALSE(floors.full_scan_is_cheap("t"));
  now += 3s;
  EXPECT_EQ(floor(), ClaimFloors::none);
  full(ClaimFloors::none, false, 100ms);
  EXPECT_EQ(floor(), second) << "a full scan that finds nothing does not forget it";
  full(first, false, 100ms);
  EXPECT_EQ(floor(), second) << "all before it has been seen";
  full(first, true, 100ms);
  EXPECT_EQ(floor(), first) << "there may be more between the two";
}

TEST_F(ClaimFloorsTest, AHigherPriorityDoesNotMoveTheFloorBack) {
  full(second, true, 1ms);
  floored(second, ClaimPlace{-5, 9000, 9});
  EXPECT_EQ(floor(), second);
  floored(second, ClaimPlace{5, 500, 10});
  EXPECT_EQ(floor(), (ClaimPlace{5, 500, 10})) << "a lower one does";
}

TEST_F(ClaimFloorsTest, ForgettingLooksFromTheHeadNextTime) {
  full(third, true, 4s);
  EXPECT_EQ(floor(), third);
  floors.forget("t");
  EXPECT_EQ(floor(), ClaimFloors::none);
  floors.forget("unknown");
}

}  // namespace
}  // namespace leasehold::postgres
