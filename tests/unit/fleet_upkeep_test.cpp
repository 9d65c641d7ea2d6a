// When a process does its share of the upkeep. Without any server, and with a clock of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "tasks/fleet_upkeep.hpp"
#include "tests/support/together.hpp"

namespace leasehold {
namespace {

using namespace std::chrono_literals;

const FleetUpkeep::Clock::time_point start{1h};

/// After how long it is due again.
std::chrono::milliseconds pause_of(FleetUpkeep& upkeep, FleetUpkeep::Clock::time_point now) {
  EXPECT_TRUE(upkeep.is_due(now));
  auto pause = 0ms;
  while (!upkeep.is_due(now + pause)) pause += 10ms;
  return pause;
}

TEST(FleetUpkeepTest, TheFirstCallIsAtOnce) {
  FleetUpkeep upkeep;
  EXPECT_TRUE(upkeep.is_due(start));
  EXPECT_FALSE(upkeep.is_due(start)) << "once";
  EXPECT_FALSE(upkeep.is_due(start + 499ms));
  EXPECT_TRUE(upkeep.is_due(start + 1s));
}

TEST(FleetUpkeepTest, TheMoreProcessesTheLessOften) {
  for (const auto& [fleet, longest] :
       {std::pair{0U, 1'000ms}, std::pair{1U, 1'000ms}, std::pair{10U, 1'000ms},
        std::pair{50U, 5'000ms}, std::pair{300U, 30'000ms}, std::pair{100'000U, 30'000ms}}) {
    FleetUpkeep upkeep;
    upkeep.learn(fleet);
    auto shortest_seen = 1'000'000ms;
    auto longest_seen = 0ms;
    for (int i = 0; i < 50; ++i) {
      const auto pause = pause_of(upkeep, start + i * 1h);
      shortest_seen = std::min(shortest_seen, pause);
      longest_seen = std::max(longest_seen, pause);
    }
    EXPECT_GE(shortest_seen, longest / 2) << fleet;
    EXPECT_LE(longest_seen, longest) << fleet;
    EXPECT_GT(longest_seen - shortest_seen, longest / 5) << fleet << ": all at the same time";
  }
}

TEST(FleetUpkeepTest, AFleetThatHasBecomeSmallIsLookedAfterMoreOften) {
  FleetUpkeep upkeep;
  upkeep.learn(100);
  EXPECT_EQ(upkeep.fleet(), 100U);
  EXPECT_GE(pause_of(upkeep, start), 5s);
  upkeep.learn(1);
  EXPECT_LE(pause_of(upkeep, start + 1h), 1s);
  upkeep.learn(0);
  EXPECT_EQ(upkeep.fleet(), 1U) << "we are there";
}

TEST(FleetUpkeepTest, OfManyThreadsOneMakesTheCall) {
  for (int round = 0; round < 100; ++round) {
    FleetUpkeep upkeep;
    std::atomic<int> calls{0};
    testing::together(8, [&](int) {
      if (upkeep.is_due(start)) ++calls;
    });
    EXPECT_EQ(calls, 1);
  }
}

}  // namespace
}  // namespace leasehold
