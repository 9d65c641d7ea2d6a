// SharedMutex as the standard library uses it.
#include <gtest/gtest.h>

#include <atomic>
#include <shared_mutex>
#include <thread>

#include "tests/support/fault_proxy.hpp"
#include "tests/support/lock_family.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<SharedMutex>);
static_assert(noexcept(std::declval<SharedMutex&>().unlock()));
static_assert(noexcept(std::declval<SharedMutex&>().unlock_shared()));

template <class Store>
class SharedMutexFixture : public LockFamilyFixture<Store> {
 protected:
  SharedMutex mutex{this->client, this->name};
  SharedMutex theirs{this->other, this->name};  // the same lock, for another process
};

class SharedMutexTest : public SharedMutexFixture<OnEveryLockStore> {};
ON_EVERY_STORE(SharedMutexTest);

class RedisSharedMutexTest : public SharedMutexFixture<OnRedis> {
 protected:
  RedisEndpoint& redis = store.redis();
};

TEST_P(SharedMutexTest, SharedLockReadsAndUniqueLockWrites) {
  {
    const std::shared_lock first{mutex};
    const std::shared_lock second{mutex};
    const std::shared_lock elsewhere{theirs};
    EXPECT_EQ(holders(), 3U);
    EXPECT_FALSE(theirs.try_lock());
    EXPECT_FALSE(mutex.try_lock());
  }
  {
    const std::unique_lock writer{mutex};
    EXPECT_EQ(other.status(name)->kind, LockKind::exclusive);
    EXPECT_FALSE(theirs.try_lock_shared());
    EXPECT_FALSE(theirs.try_lock());
    EXPECT_FALSE(mutex.try_lock_shared());
    EXPECT_FALSE(mutex.try_lock());
  }
  EXPECT_TRUE(theirs.try_lock());
  theirs.unlock();
}

TEST_P(SharedMutexTest, ScopedLockTakesSeveral) {
  SharedMutex second{client, name_for_test("second")};
  {
    const std::scoped_lock both{mutex, second};
    EXPECT_TRUE(other.status(name));
    EXPECT_TRUE(other.status(name_for_test("second")));
  }
  EXPECT_FALSE(other.status(name));
  EXPECT_FALSE(other.status(name_for_test("second")));
}

TEST_P(SharedMutexTest, ScopedLocksInAnyOrderDoNotDeadlock) {
  SharedMutex second{client, name_for_test("second")};
  SharedMutex their_second{other, name_for_test("second")};
  std::vector<std::future<void>> threads;
  int inside = 0;  // protected by either order of the two
  for (int i = 0; i < 4; ++i) {
    threads.push_back(in_background([&, i] {
      for (int round = 0; round < 5; ++round) {
        if (i % 2 == 0) {
          const std::scoped_lock both{mutex, second};
          ++inside;
        } else {
          const std::scoped_lock both{second, mutex};
          ++inside;
        }
      }
    }));
  }
  for (auto& thread : threads) result_of(thread);
  EXPECT_EQ(inside, 20);
}

TEST_P(SharedMutexTest, TimedTriesEndInTime) {
  const std::unique_lock writer{theirs};
  const auto began = Clock::now();
  EXPECT_FALSE(mutex.try_lock_for(30ms));
  EXPECT_FALSE(mutex.try_lock_shared_for(30ms));
  EXPECT_FALSE(mutex.try_lock_until(Clock::now() + 30ms));
  EXPECT_FALSE(mutex.try_lock_shared_until(std::chrono::system_clock::now() + 30ms));
  EXPECT_GE(Clock::now() - began, 120ms);
  EXPECT_FALSE(mutex.try_lock_for(-1s));
  EXPECT_FALSE(mutex.try_lock_shared_until(Clock::now() - 1s));
  EXPECT_EQ(in_line(), 0);
}

TEST_P(SharedMutexTest, TimedTriesInsideTheProcessEndInTimeToo) {
  const std::unique_lock writer{mutex};
  EXPECT_FALSE(mutex.try_lock_for(30ms));
  EXPECT_FALSE(mutex.try_lock_shared_for(30ms));
}

TEST_P(SharedMutexTest, TimedTriesSucceedWhenTheLockComesInTime) {
  std::unique_lock writer{theirs};
  auto reads = in_background([&] {
    std::shared_lock lock{mutex, std::defer_lock};
    return lock.try_lock_for(patience);
  });
  ASSERT_TRUE(waiting(1));
  writer.unlock();
  EXPECT_TRUE(result_of(reads));

  std::shared_lock reader{theirs};
  auto writes = in_background([&] {
    const std::unique_lock lock{mutex, Clock::now() + patience};
    return lock.owns_lock();
  });
  ASSERT_TRUE(waiting(1));
  reader.unlock();
  EXPECT_TRUE(result_of(writes));
}

TEST_P(SharedMutexTest, ManyThreadsOfTwoProcessesKeepTheirPromise) {
  int value = 0;  // written under the lock only; TSan watches
  std::atomic<int> readers = 0;
  std::vector<std::future<void>> threads;
  for (int i = 0; i < 8; ++i) {
    threads.push_back(in_background([&, i] {
      SharedMutex& mine = i % 2 == 0 ? mutex : theirs;
      for (int round = 0; round < 15; ++round) {
        if (i < 2) {
          const std::unique_lock lock{mine};
          EXPECT_EQ(readers, 0);
          ++value;
        } else {
          const std::shared_lock lock{mine};
          ++readers;
          EXPECT_LE(value, 30);
          --readers;
        }
      }
    }));
  }
  for (auto& thread : threads) result_of(thread);
  EXPECT_EQ(value, 30);
}

// Within a process too, neither side may keep the other out for ever.
TEST_P(SharedMutexTest, StreamOfWritersDoesNotStarveAReader) {
  std::atomic<bool> enough = false;
  std::atomic<int> written = 0;
  std::vector<std::future<void>> writers;
  for (int i = 0; i < 3; ++i) {
    writers.push_back(in_background([&] {
      while (!enough) {
        const std::unique_lock lock{mutex};
        ++written;
      }
    }));
  }
  ASSERT_TRUE(eventually([&] { return written > 3; }, patience));
  EXPECT_TRUE(mutex.try_lock_shared_for(patience));
  enough = true;
  mutex.unlock_shared();
  for (auto& writer : writers) result_of(writer);
}

TEST_P(SharedMutexTest, StreamOfReadersDoesNotStarveAWriter) {
  std::atomic<bool> enough = false;
  std::atomic<int> read = 0;
  std::vector<std::future<void>> readers;
  for (int i = 0; i < 3; ++i) {
    readers.push_back(in_background([&] {
      // Each holds it until another one does: there is always a reader.
      while (!enough) {
        const std::shared_lock lock{mutex};
        const int mine = ++read;
        const auto deadline = Clock::now() + 50ms;
        while (!enough && read == mine && Clock::now() < deadline) std::this_thread::yield();
      }
    }));
  }
  ASSERT_TRUE(eventually([&] { return read > 3; }, patience));
  EXPECT_TRUE(mutex.try_lock_for(patience));
  enough = true;
  mutex.unlock();
  for (auto& reader : readers) result_of(reader);
}

TEST_P(SharedMutexTest, GivesUpItsPlaceWhenAWriterTimesOut) {
  std::shared_lock reader{mutex};
  auto writer = in_background([&] { return mutex.try_lock_for(200ms); });
  EXPECT_FALSE(result_of(writer));
  EXPECT_TRUE(mutex.try_lock_shared_for(patience));  // nobody waits any more
  mutex.unlock_shared();
}

TEST_P(SharedMutexTest, MayBeUnlockedByAnotherThread) {
  mutex.lock();
  std::jthread{[&] { mutex.unlock(); }}.join();
  mutex.lock_shared();
  std::jthread{[&] { mutex.unlock_shared(); }}.join();
  EXPECT_FALSE(other.status(name));
}

TEST(SharedMutexFaultTest, UnlocksWithoutThrowingWhenRedisIsGone) {
  RedisServer redis;
  auto options = as_new_runner();
  options.redis.command_timeout = 300ms;
  LockClient client{redis.uri(), options};
  SharedMutex written{client, "written"};
  SharedMutex read{client, "read"};
  written.lock();
  read.lock_shared();
  read.lock_shared();
  redis.kill();
  written.unlock();
  read.unlock_shared();
  read.unlock_shared();
  EXPECT_THROW(written.try_lock(), Unavailable);
  EXPECT_THROW(read.try_lock_shared(), Unavailable);
  redis.start();  // empty
  EXPECT_TRUE(written.try_lock_for(patience));
  EXPECT_TRUE(read.try_lock_shared_for(patience));
  written.unlock();
  read.unlock_shared();
}

TEST_F(RedisSharedMutexTest, WaitsForARedisThatIsAway) {
  FaultProxy proxy{redis.port()};
  LockClient far{redis.uri_through(proxy.port()), as_new_runner()};
  SharedMutex remote{far, name};
  proxy.refuse(true);
  auto locked = in_background([&] {
    const std::shared_lock lock{remote};
    return lock.owns_lock();
  });
  EXPECT_THROW(remote.try_lock_shared(), Unavailable);
  proxy.refuse(false);
  EXPECT_TRUE(result_of(locked));
}

}  // namespace
}  // namespace leasehold::testing
