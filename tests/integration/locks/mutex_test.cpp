// A lock behind the standard library's interface.
#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <thread>

#include "tests/support/lock_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

static_assert(noexcept(std::declval<Mutex&>().unlock()));

class MutexTest : public OnEveryLockStore {
 protected:
  std::string name = name_for_test();
  LockClient client{store.uri(), as_new_runner()};
  LockClient other{store.uri(), as_new_runner()};
};
ON_EVERY_STORE(MutexTest);

TEST_P(MutexTest, LocksAndUnlocks) {
  Mutex mutex{client, name};
  mutex.lock();
  EXPECT_TRUE(mutex.valid());
  EXPECT_GT(mutex.token().value, 0U);
  EXPECT_FALSE(mutex.lost().stop_requested());
  EXPECT_FALSE(other.acquire(name, {.wait = 0ms}));
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  EXPECT_FALSE(mutex.valid());
  EXPECT_FALSE(store.has_lock(name));
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

TEST_P(MutexTest, ExcludesOtherProcessesHolders) {
  Mutex mine{client, name};
  Mutex theirs{other, name};
  const std::lock_guard guard{mine};
  EXPECT_FALSE(theirs.try_lock());
}

TEST_P(MutexTest, IgnoresStrategiesThatWouldNotExclude) {
  Mutex mine{client, name};
  Mutex theirs{other, name, {.on_conflict = OnConflict::force}};
  const std::lock_guard guard{mine};
  EXPECT_FALSE(theirs.try_lock());
  EXPECT_TRUE(mine.valid());
}

TEST_P(MutexTest, TryLockForGivesUpInTime) {
  Mutex mutex{client, name};
  Mutex theirs{other, name};
  const std::lock_guard guard{theirs};
  const auto before = steady_clock::now();
  std::unique_lock timed{mutex, 100ms};
  EXPECT_FALSE(timed.owns_lock());
  EXPECT_GE(steady_clock::now() - before, 100ms);
  EXPECT_FALSE(timed.try_lock_until(steady_clock::now() - 1s));
  EXPECT_FALSE(mutex.try_lock_for(-1h));
}

TEST_P(MutexTest, TryLockForGivesUpInTimeWithinOneProcess) {
  Mutex mutex{client, name};
  const std::lock_guard guard{mutex};
  EXPECT_FALSE(std::async(std::launch::async, [&] { return mutex.try_lock_for(50ms); }).get());
}

TEST_P(MutexTest, TryLockForGetsItWhenItIsFreeInTime) {
  Mutex mutex{client, name};
  std::unique_lock first{mutex};
  auto waiting = std::async(std::launch::async, [&] {
    std::unique_lock second{mutex, std::defer_lock};
    return second.try_lock_until(std::chrono::system_clock::now() + patience);
  });
  EXPECT_EQ(waiting.wait_for(20ms), std::future_status::timeout);
  first.unlock();
  EXPECT_TRUE(waiting.get());
}

TEST_P(MutexTest, ScopedLockOverTwoNeverDeadlocks) {
  Mutex a{client, name + "-a"};
  Mutex b{client, name + "-b"};
  Mutex other_a{other, name + "-a"};
  Mutex other_b{other, name + "-b"};
  int guarded = 0;
  constexpr int rounds = 10;
  const auto work = [&](Mutex& first, Mutex& second) {
    for (int i = 0; i < rounds; ++i) {
      const std::scoped_lock both{first, second};
      EXPECT_TRUE(first.valid() && second.valid());
      const int seen = guarded;
      std::this_thread::yield();
      guarded = seen + 1;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back(work, std::ref(a), std::ref(b));
      threads.emplace_back(work, std::ref(b), std::ref(a));
      threads.emplace_back(work, std::ref(other_b), std::ref(other_a));
    }
  }
  EXPECT_EQ(guarded, 9 * rounds);
}

TEST_P(MutexTest, ThreadsOfOneMutexQueueUpInTheProcess) {
  Mutex mutex{client, name};
  int guarded = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 16; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) {
          const std::lock_guard guard{mutex};
          ++guarded;
        }
      });
    }
  }
  EXPECT_EQ(guarded, 16 * 20);
  // Nobody bothered Redis while another thread of the process had it.
  EXPECT_EQ(client.stats().contended, 0U);
}

TEST_P(MutexTest, BadArgumentsAreRefusedAtOnce) {
  EXPECT_THROW((Mutex{client, ""}), InvalidArgument);
  EXPECT_THROW((Mutex{client, name, {.ttl = 0ms}}), InvalidArgument);
}

TEST(MutexFaultTest, UnlockNeverThrowsEvenIfRedisIsGone) {
  RedisServer redis;
  LockClient client{redis.uri(), as_new_runner()};
  Mutex mutex{client, "gone"};
  mutex.lock();
  redis.kill();
  mutex.unlock();
  EXPECT_FALSE(mutex.valid());
  EXPECT_THROW(mutex.try_lock(), Unavailable);
  redis.start();
  EXPECT_TRUE(mutex.try_lock_for(patience));
  mutex.unlock();
  expect_nothing_left(redis);
}

TEST(MutexFaultTest, LockWaitsForARedisThatIsAway) {
  RedisServer redis;
  LockClient client{redis.uri(), as_new_runner()};
  Mutex mutex{client, "away"};
  redis.stop();
  auto locking = std::async(std::launch::async, [&] { mutex.lock(); });
  EXPECT_EQ(locking.wait_for(100ms), std::future_status::timeout);
  redis.start();
  locking.get();
  EXPECT_TRUE(mutex.valid());
  mutex.unlock();
  expect_nothing_left(redis);
}

}  // namespace
}  // namespace leasehold::testing
