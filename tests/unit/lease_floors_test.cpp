// Where leases begin to look: never so that something is lost, and not from the head each time.
#include "postgres/lease_floors.hpp"

#include <gtest/gtest.h>

namespace leasehold::postgres {
namespace {

using namespace std::chrono_literals;

class LeaseFloorsTest : public ::testing::Test {
 protected:
  static constexpr LeasePlace first{0, 1000, 1};
  static constexpr LeasePlace second{0, 2000, 2};
  static constexpr LeasePlace third{0, 3000, 3};

  LeasePlace floor() { return floors.floor_of("t", now); }
  void full(LeasePlace last, bool satisfied, LeaseFloors::Clock::duration took) {
    floors.learn("t", {LeaseFloors::none, last, satisfied, took}, now);
  }
  void floored(LeasePlace used, LeasePlace last) {
    floors.learn("t", {used, last, true, 1ms}, now);
  }

  LeaseFloors floors;
  LeaseFloors::Clock::time_point now = LeaseFloors::Clock::now();
};

TEST_F(LeaseFloorsTest, BeginsAtTheHead) { EXPECT_EQ(floor(), LeaseFloors::none); }

TEST_F(LeaseFloorsTest, InALongQueueGoesOnBehindTheLast) {
  full(first, true, 1ms);
  EXPECT_EQ(floor(), first);
  floored(first, second);
  EXPECT_EQ(floor(), second);
  EXPECT_EQ(floors.floor_of("another type", now), LeaseFloors::none);
}

TEST_F(LeaseFloorsTest, LooksFromTheHeadAgainAfterTwentyTimesAsLong) {
  full(first, true, 1ms);
  now += 19ms;
  EXPECT_EQ(floor(), first);
  now += 2ms;
  EXPECT_EQ(floor(), LeaseFloors::none) << "one looks from the head";
  EXPECT_EQ(floor(), first) << "the others need not at the same time";
}

TEST_F(LeaseFloorsTest, SlowScansAreMadeAtMostEveryFiveSeconds) {
  full(first, true, 10s);
  now += 4999ms;
  EXPECT_EQ(floor(), first);
  now += 2ms;
  EXPECT_EQ(floor(), LeaseFloors::none);
}

TEST_F(LeaseFloorsTest, AShortQueueNeedsNoFloor) {
  full(first, true, 1ms);
  now += 1s;
  full(second, false, 1ms);
  EXPECT_EQ(floor(), LeaseFloors::none);
}

TEST_F(LeaseFloorsTest, AShortQueueBehindManyDeadEntriesDoes) {
  full(second, false, 100ms);
  EXPECT_EQ(floor(), second);
  EXPECT_FALSE(floors.full_scan_is_cheap("t"));
  now += 3s;
  EXPECT_EQ(floor(), LeaseFloors::none);
  full(LeaseFloors::none, false, 100ms);
  EXPECT_EQ(floor(), second) << "a full scan that finds nothing does not forget it";
  full(first, false, 100ms);
  EXPECT_EQ(floor(), second) << "all before it has been seen";
  full(first, true, 100ms);
  EXPECT_EQ(floor(), first) << "there may be more between the two";
}

TEST_F(LeaseFloorsTest, AHigherPriorityDoesNotMoveTheFloorBack) {
  full(second, true, 1ms);
  floored(second, LeasePlace{-5, 9000, 9});
  EXPECT_EQ(floor(), second);
  floored(second, LeasePlace{5, 500, 10});
  EXPECT_EQ(floor(), (LeasePlace{5, 500, 10})) << "a lower one does";
}

TEST_F(LeaseFloorsTest, ForgettingLooksFromTheHeadNextTime) {
  full(third, true, 4s);
  EXPECT_EQ(floor(), third);
  floors.forget("t");
  EXPECT_EQ(floor(), LeaseFloors::none);
  floors.forget("unknown");
}

}  // namespace
}  // namespace leasehold::postgres
