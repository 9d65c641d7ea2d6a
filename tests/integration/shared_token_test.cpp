// Tokens of those who share a lock, when the counter runs out: found by the history checker.
#include <gtest/gtest.h>

#include "leasehold/shared_lock.hpp"
#include "tests/support/lock_test_helpers.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;

class SharedTokenTest : public ::testing::Test {
 protected:
  static LockClientOptions forgetful() {
    LockClientOptions options = as_new_runner();
    options.keep_counters = 1s;  // shorter than the leases below
    return options;
  }

  std::int64_t counter_lives_for() { return redis.command({"PTTL", "lh:{lock}:fence"}).integer; }

  RedisServer redis;
  LockClient client{redis.uri(), forgetful()};
  SharedLock lock{client, "lock"};
};

TEST_F(SharedTokenTest, TheCounterOutlivesTheReaders) {
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

TEST_F(SharedTokenTest, AReaderBesideADowngradedWriterDoesNotOutrankIt) {
  Lock writer = lock.write({.ttl = 60s}).value();
  redis.command({"DEL", "lh:{lock}:fence"});  // as if it had expired
  ASSERT_EQ(writer.downgrade(), Ownership::held);
  EXPECT_EQ(lock.read()->token(), writer.token());

  writer.release();
  EXPECT_GT(lock.write()->token(), writer.token());
}

}  // namespace
}  // namespace leasehold::testing
