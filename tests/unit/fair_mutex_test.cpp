#include "support/fair_mutex.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace leasehold {
namespace {

using namespace std::chrono_literals;

TEST(FairMutexTest, OneThreadAtATimeHasIt) {
  constexpr int threads = 8;
  constexpr int times = 5'000;
  FairMutex mutex;
  int inside = 0;
  int sum = 0;
  {
    std::vector<std::jthread> all;
    for (int i = 0; i < threads; ++i) {
      all.emplace_back([&] {
        for (int n = 0; n < times; ++n) {
          const FairLock lock(mutex);
          EXPECT_EQ(++inside, 1);
          ++sum;
          --inside;
        }
      });
    }
  }
  EXPECT_EQ(sum, threads * times);
}

TEST(FairMutexTest, AThreadThatHasWaitedGoesBeforeOneThatLocksAgain) {
  FairMutex mutex;
  int tries = 0;
  int handed_over = 0;
  for (; tries < 20; ++tries) {
    std::atomic<bool> comes{false};
    bool had_it = false;  // guarded by mutex
    mutex.lock();
    const std::jthread waiter([&] {
      comes = true;
      const FairLock lock(mutex);
      had_it = true;
    });
    while (!comes) std::this_thread::yield();
    std::this_thread::sleep_for(5ms);  // nothing shows that it waits by now
    mutex.unlock();
    mutex.lock();
    handed_over += had_it;
    mutex.unlock();
  }
  // Not always: on a busy machine the waiter may not even have run yet.
  EXPECT_GT(handed_over, tries / 2);
}

}  // namespace
}  // namespace leasehold
