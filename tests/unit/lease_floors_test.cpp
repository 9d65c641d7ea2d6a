// Where leases begin to look: never so that something is lost, and not from the head each time.
#include "postgres/lease_floors.hpp"

#include <gtest/gtest.h>

namespace leasehold::postgres {
namespace {

using namespace std::chrono_literals;

class LeaseFloorsTest : public ::testing::Test {
 protected:
  using Places = LeaseFloors::Places;
  static constexpr LeasePlace first{1000, 1};
  static constexpr LeasePlace second{2000, 2};
  static constexpr LeasePlace third{3000, 3};
  const Places none{};

  Places floors_now() { return floors.search_for("t", now).floors; }
  void full(Places last, bool satisfied, LeaseFloors::Clock::duration took) {
    floors.learn("t", {.full = true, .last = std::move(last), .satisfied = satisfied, .took = took},
                 now);
  }
  void floored(Places last) {
    floors.learn("t", {.last = std::move(last), .satisfied = true, .took = 1ms}, now);
  }

  LeaseFloors floors;
  LeaseFloors::Clock::time_point now = LeaseFloors::Clock::now();
};

TEST_F(LeaseFloorsTest, BeginsAtTheHead) { EXPECT_EQ(floors_now(), none); }

TEST_F(LeaseFloorsTest, InALongQueueGoesOnBehindTheLast) {
  full({{0, first}}, true, 1ms);
  EXPECT_EQ(floors_now(), (Places{{0, first}}));
  floored({{0, second}});
  EXPECT_EQ(floors_now(), (Places{{0, second}}));
  EXPECT_EQ(floors.search_for("another type", now).floors, none);
}

TEST_F(LeaseFloorsTest, LooksFromTheHeadAgainAfterTwentyTimesAsLong) {
  full({{0, first}}, true, 1ms);
  now += 19ms;
  EXPECT_EQ(floors_now(), (Places{{0, first}}));
  now += 2ms;
  EXPECT_EQ(floors_now(), none) << "one looks from the head";
  EXPECT_EQ(floors_now(), (Places{{0, first}})) << "the others need not at the same time";
}

TEST_F(LeaseFloorsTest, SlowScansAreMadeAtMostEveryFiveSeconds) {
  full({{0, first}}, true, 10s);
  now += 4999ms;
  EXPECT_EQ(floors_now(), (Places{{0, first}}));
  now += 2ms;
  EXPECT_EQ(floors_now(), none);
}

TEST_F(LeaseFloorsTest, AShortQueueNeedsNoFloor) {
  full({{0, first}}, true, 1ms);
  now += 1s;
  full({{0, second}}, false, 1ms);
  EXPECT_EQ(floors_now(), none);
}

TEST_F(LeaseFloorsTest, AShortQueueBehindManyDeadEntriesDoes) {
  full({{0, second}}, false, 100ms);
  EXPECT_EQ(floors_now(), (Places{{0, second}}));
  EXPECT_FALSE(floors.full_scan_is_cheap("t"));
  now += 3s;
  EXPECT_EQ(floors_now(), none);
  full({}, false, 100ms);
  EXPECT_EQ(floors_now(), (Places{{0, second}}))
      << "a full scan that finds nothing does not forget it";
  full({{0, first}}, false, 100ms);
  EXPECT_EQ(floors_now(), (Places{{0, second}})) << "all before it has been seen";
  full({{0, first}}, true, 100ms);
  EXPECT_EQ(floors_now(), (Places{{0, first}})) << "there may be more between the two";
}

TEST_F(LeaseFloorsTest, EachPriorityHasAFloorOfItsOwn) {
  full({{0, second}}, true, 1ms);
  floored({{-5, third}});
  EXPECT_EQ(floors_now(), (Places{{-5, third}, {0, second}}));
  floored({{0, third}, {5, first}});
  EXPECT_EQ(floors_now(), (Places{{-5, third}, {0, third}, {5, first}}));
  full({{-5, first}, {0, first}}, true, 1ms);
  EXPECT_EQ(floors_now(), (Places{{-5, third}, {0, first}, {5, first}}))
      << "only the rank in which it stopped may have more before the old floor";
}

TEST_F(LeaseFloorsTest, SlowSearchesForOtherPrioritiesTakeATwentiethOfTheTime) {
  full({{0, first}}, true, 60ms);
  EXPECT_FALSE(floors.search_for("t", now).gaps);
  now += 1199ms;
  EXPECT_EQ(floors_now(), (Places{{0, first}}));
  EXPECT_FALSE(floors.search_for("t", now).gaps);
  now += 2ms;
  EXPECT_EQ(floors_now(), none) << "a full scan, which looks for them too";
  EXPECT_FALSE(floors.search_for("t", now).gaps) << "the others need not";
  floors.learn("t", {.gaps = false, .last = {{0, second}}, .satisfied = true, .took = 20ms}, now);
  full({{0, first}}, true, 60ms);
  floors.learn("t", {.last = {{0, second}}, .satisfied = true, .took = 11ms}, now);
  now += 221ms;
  EXPECT_TRUE(floors.search_for("t", now).gaps);
}

TEST_F(LeaseFloorsTest, QuickSearchesForOtherPrioritiesAreMadeEachTime) {
  full({{0, first}}, true, 1ms);
  EXPECT_TRUE(floors.search_for("t", now).gaps);
  floored({{0, second}});
  EXPECT_TRUE(floors.search_for("t", now).gaps);
  full({}, false, 100ms);
  EXPECT_TRUE(floors.search_for("no such type", now).gaps);
}

TEST_F(LeaseFloorsTest, WithoutAFloorAllPrioritiesAreLookedFor) {
  full({}, false, 100ms);
  EXPECT_EQ(floors_now(), none);
  EXPECT_TRUE(floors.search_for("t", now).gaps) << "nothing would be found otherwise";
}

TEST_F(LeaseFloorsTest, ForgettingLooksFromTheHeadNextTime) {
  full({{0, third}}, true, 4s);
  EXPECT_EQ(floors_now(), (Places{{0, third}}));
  floors.forget("t");
  EXPECT_EQ(floors_now(), none);
  floors.forget("unknown");
}

}  // namespace
}  // namespace leasehold::postgres
