// Tokens of those who share a lock, when the counter runs out: found by the history checker.
#include <gtest/gtest.h>

#include "leasehold/shared_lock.hpp"
#include "tests/support/lock_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;

template <class Store>
class SharedTokenFixture : public Store {
 protected:
  static LockClientOptions forgetful() {
    LockClientOptions options = as_new_runner();
    options.keep_counters = 1s;  // shorter than the leases below
    return options;
  }

  LockClient client{this->store.uri(), forgetful()};
  SharedLock lock{client, "lock"};
};

class SharedTokenTest : public SharedTokenFixture<OnEveryLockStoreOfItsOwn> {};
ON_EVERY_STORE(SharedTokenTest);

class RedisSharedTokenTest : public SharedTokenFixture<OnARedisOfItsOwn> {
 protected:
  std::int64_t counter_lives_for() { return redis.command({"PTTL", "lh:{lock}:fence"}).integer; }

  RedisEndpoint& redis = store.redis();
};

TEST_F(RedisSharedTokenTest, TheCounterOutlivesTheReaders) {
  const Lock first = lock.read({.ttl = 60s}).value();
  EXPECT_GT(counter_lives_for(), 50'000);

  redis.command({"PEXPIRE", "lh:{lock}:fence", "5000"});
  Lock second = lock.read({.ttl = 20s}).value();
  EXPECT_EQ(second.token(), first.token());
  EXPECT_GT(counter_lives_for(), 10'000);

  redis.command({"PEXPIRE", "lh:{lock}:fence", "5000"});
  EXPECT_EQ(second.extend(), Ownership::held);
  EXPECT_GT(counter_lives_for(), 10'000) << "a heartbeat prolongs it too";
}

TEST_P(SharedTokenTest, WhoComesLaterDoesNotOutrankTheReaders) {
  const Lock first = lock.read({.ttl = 60s}).value();
  // As long as tokens are remembered, and a bit: then the users of locks clean up.
  ASSERT_TRUE(eventually(
      [&] {
        client.acquire("another");
        return client.status("lock")->holders.at(0).age > 2'500ms;
      },
      patience));
  EXPECT_EQ(lock.read()->token(), first.token());
}

TEST_P(SharedTokenTest, AReaderBesideADowngradedWriterDoesNotOutrankIt) {
  Lock writer = lock.write({.ttl = 60s}).value();
  store.forget_token("lock");  // as if it had expired
  ASSERT_EQ(writer.downgrade(), Ownership::held);
  EXPECT_EQ(lock.read()->token(), writer.token());

  writer.release();
  EXPECT_GT(lock.write()->token(), writer.token());
}

}  // namespace
}  // namespace leasehold::testing
