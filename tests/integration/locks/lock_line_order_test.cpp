// Who gets the lock next: first come, first served, unless priorities say otherwise.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/integration/locks/lock_line_fixture.hpp"

namespace leasehold::testing {
namespace {

using Then = Waiter::Then;

class LockLineOrderTest : public LockLineFixture<OnEveryLockStoreOfItsOwn> {};
ON_EVERY_STORE(LockLineOrderTest);

TEST_P(LockLineOrderTest, FirstComeFirstServed) {
  repeat_if_evicted([&] {
    hold();
    for (int i = 0; i < 20; ++i) join(std::to_string(i));
    held->release();
    for (Waiter& waiter : waiters) waiter.release();
    EXPECT_EQ(order_of_grants(), ids);
  });
}

TEST_P(LockLineOrderTest, ReleaseHandsTheLockToTheNextInTheSameStep) {
  repeat_if_evicted([&] {
    hold();
    join("a");
    join("b");
    held->release();
    EXPECT_EQ(holder_of(client, name), "a");
    waiters[0].release();
    EXPECT_EQ(holder_of(client, name), "b");
    waiters[1].release();
    EXPECT_EQ(holder_of(client, name), "nobody");
  });
}

/// Steps of priority between two waiters.
struct Steps {
  int low;
  int high;
};
class OnEveryStoreWithSteps : public ::testing::TestWithParam<std::tuple<StoreKind, Steps>> {
 protected:
  LockStoreUnderTest store{std::get<0>(GetParam()), LockStoreUnderTest::Server::own};
};

class LockLinePriorityTest : public LockLineFixture<OnEveryStoreWithSteps> {
 protected:
  const int low = std::get<1>(GetParam()).low;
  const int high = std::get<1>(GetParam()).high;
  const int bound = 8 * (high - low);  // as LockOptions::priority promises
};

TEST_P(LockLinePriorityTest, WaiterOvertakesEightWhoCameEarlierForEachStepAndNotOneMore) {
  repeat_if_evicted([&] {
    hold();
    for (int i = 0; i < bound + 3; ++i) {
      join(std::to_string(i), {.priority = low}, Then::pass);
    }
    Ids expected = ids;
    expected.insert(expected.begin() + 3, "high");
    join("high", {.priority = high}, Then::pass);
    held->release();
    EXPECT_EQ(order_of_grants(), expected);
  });
}

TEST_P(LockLinePriorityTest, WaiterIsOvertakenByEightWhoCameLaterForEachStepAndNotOneMore) {
  repeat_if_evicted([&] {
    hold();
    join("low", {.priority = low}, Then::pass);
    for (int i = 0; i < bound + 3; ++i) {
      join(std::to_string(i), {.priority = high}, Then::pass);
    }
    Ids expected(ids.begin() + 1, ids.end());
    expected.insert(expected.begin() + bound, "low");
    held->release();
    EXPECT_EQ(order_of_grants(), expected);
  });
}

INSTANTIATE_TEST_SUITE_P(
    , LockLinePriorityTest,
    ::testing::Combine(::testing::Values(StoreKind::redis, StoreKind::sqlite_memory,
                                         StoreKind::sqlite_file),
                       ::testing::Values(Steps{0, 1}, Steps{-1, 0}, Steps{-1, 1}, Steps{97, 100})),
    [](const auto& tested) {
      return to_name(std::get<0>(tested.param)) + std::to_string(tested.index);
    });

TEST_P(LockLineOrderTest, StreamOfHigherPrioritiesDoesNotStarveALowOne) {
  repeat_if_evicted([&] {
    constexpr std::size_t streams = 4;
    constexpr int priority = 2;
    const FencingToken first = hold().token();
    std::atomic<bool> stop{false};
    std::vector<std::jthread> stream;
    for (std::size_t i = 0; i < streams; ++i) {
      stream.emplace_back([&] {
        while (!stop) {
          others.acquire(name, {.wait = LockOptions::forever, .priority = priority}).value();
        }
      });
    }
    EXPECT_TRUE(eventually([&] { return line_length(client, name) == streams; }, patience));
    Waiter& low = join("low");
    held->release();
    const FencingToken its = low.lock().token();
    stop = true;
    low.release();
    stream.clear();
    const auto entries = events->entries();
    const auto served_before =
        std::count_if(entries.begin(), entries.end(), [&](const auto& entry) {
          return entry.type == LockEventType::acquired && entry.name == name &&
                 entry.token > first && entry.token < its;
        });
    // Those who stood there already, and those who may overtake.
    EXPECT_LE(served_before, streams + 8 * priority);
  });
}

TEST_P(LockLineOrderTest, NewcomersDoNotGetPastTheLine) {
  repeat_if_evicted([&] {
    hold();
    const auto before = client.stats().contended;
    for (int i = 0; i < 30; ++i) join(std::to_string(i), {}, Then::pass);
    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::vector<FencingToken> newcomers;
    std::vector<std::jthread> threads;
    for (const auto strategy : {OnConflict::fail_fast, OnConflict::retry, OnConflict::wait}) {
      threads.emplace_back([&, strategy] {
        while (!stop) {
          auto lock =
              client.acquire(name, {.wait = strategy == OnConflict::wait ? 1ms : 1'000ms,
                                    .on_conflict = strategy,
                                    .retry = {.retries = 50, .first = 1ms, .longest = 1ms}});
          const std::lock_guard guard(mutex);
          if (lock) newcomers.push_back(lock.value().token());
        }
      });
    }
    EXPECT_TRUE(eventually([&] { return client.stats().contended > before + 10; }, patience));
    held->release();
    const Ids order = order_of_grants();
    stop = true;
    threads.clear();
    EXPECT_EQ(order, ids);
    for (const FencingToken token : newcomers) {
      EXPECT_GT(token, waiters.back().lock().token()) << "got past the line";
    }
  });
}

TEST_P(LockLineOrderTest, BargingGoesFirst) {
  repeat_if_evicted([&] {
    hold();
    join("a", {.priority = 100}, Then::pass);
    join("b", {}, Then::pass);
    join("barging 1", {.queueing = Queueing::barging}, Then::pass);
    join("barging 2", {.queueing = Queueing::barging}, Then::pass);
    held->release();
    EXPECT_EQ(order_of_grants(), (Ids{"barging 2", "barging 1", "a", "b"}));
  });
}

}  // namespace
}  // namespace leasehold::testing
