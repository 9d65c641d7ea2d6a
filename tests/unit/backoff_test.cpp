#include "support/backoff.hpp"

#include <gtest/gtest.h>

#include <set>

namespace leasehold {
namespace {

using namespace std::chrono_literals;

// Each pause is between half and all of what its turn allows.
void expect_between_half_and_all(Backoff& backoff, std::chrono::milliseconds full) {
  const auto pause = backoff.next();
  EXPECT_GE(pause, full / 2 - 1ms);
  EXPECT_LE(pause, full);
}

TEST(BackoffTest, GrowsUpToItsCapAndStaysThere) {
  Backoff backoff(100ms, 500ms);
  for (const auto full : {100ms, 200ms, 400ms, 500ms, 500ms}) {
    expect_between_half_and_all(backoff, full);
  }
  for (int i = 0; i < 10'000; ++i) expect_between_half_and_all(backoff, 500ms);
}

TEST(BackoffTest, StartsAgainAfterReset) {
  Backoff backoff(100ms, 10s);
  for (int i = 0; i < 5; ++i) backoff.next();
  backoff.reset();
  expect_between_half_and_all(backoff, 100ms);
  expect_between_half_and_all(backoff, 200ms);
}

TEST(BackoffTest, GrowsByItsFactor) {
  Backoff backoff(100ms, 10s, 3.0);
  for (const auto full : {100ms, 300ms, 900ms, 2700ms}) expect_between_half_and_all(backoff, full);
}

TEST(BackoffTest, NeverExceedsACapBelowTheFirstPause) {
  Backoff backoff(500ms, 100ms);
  for (int i = 0; i < 100; ++i) expect_between_half_and_all(backoff, 100ms);
}

TEST(BackoffTest, IsJitteredSoThatManyDoNotComeBackTogether) {
  std::set<std::chrono::milliseconds> pauses;
  for (int i = 0; i < 200; ++i) pauses.insert(Backoff(1000ms, 10s).next());
  EXPECT_GT(pauses.size(), 50U);
}

}  // namespace
}  // namespace leasehold
