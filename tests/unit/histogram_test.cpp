#include "leasehold/histogram.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "support/live_histogram.hpp"

namespace leasehold {
namespace {

using namespace std::chrono_literals;

TEST(HistogramTest, EmptyHasNoQuantile) {
  EXPECT_EQ(Histogram{}.quantile(0.5), 0us);
  EXPECT_EQ(LiveHistogram{}.snapshot().count, 0U);
}

TEST(HistogramTest, BoundsBelongToTheirBucket) {
  LiveHistogram live;
  for (const auto bound : Histogram::bounds) live.add(bound);
  live.add(Histogram::bounds.back() + 1us);
  for (const auto count : live.snapshot().buckets) EXPECT_EQ(count, 1U);
}

TEST(HistogramTest, QuantileIsTheBoundOfItsBucket) {
  LiveHistogram live;
  for (int i = 0; i < 90; ++i) live.add(40us);
  for (int i = 0; i < 9; ++i) live.add(400us);
  live.add(2s);
  const auto snapshot = live.snapshot();
  EXPECT_EQ(snapshot.count, 100U);
  EXPECT_EQ(snapshot.sum, 90 * 40us + 9 * 400us + 2s);
  EXPECT_EQ(snapshot.quantile(0.5), 50us);
  EXPECT_EQ(snapshot.quantile(0.9), 50us);
  EXPECT_EQ(snapshot.quantile(0.95), 500us);
  EXPECT_EQ(snapshot.quantile(1.0), 5s);
}

TEST(HistogramTest, NothingIsLostAmongThreads) {
  LiveHistogram live;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 10'000; ++i) live.add(std::chrono::microseconds{i});
      });
    }
  }
  const auto snapshot = live.snapshot();
  EXPECT_EQ(snapshot.count, 40'000U);
  EXPECT_EQ(std::accumulate(snapshot.buckets.begin(), snapshot.buckets.end(), std::uint64_t{0}),
            40'000U);
  EXPECT_EQ(snapshot.sum, 4 * (9'999us * 10'000 / 2));
}

}  // namespace
}  // namespace leasehold
