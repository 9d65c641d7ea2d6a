// Nobody gets a lock, or a token that is too small, because the time of day of a process is off.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/support/faketime.hpp"
#include "tests/support/lock_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;

class LockClockTest : public OnEveryLockStore {
 protected:
  /// What lock_clock_program says when its clock is off.
  std::string with_wrong_clock(const std::string& offset, const std::string& what,
                               const std::string& lock = "") const {
    return said_with_clock_off(
        offset, {LEASEHOLD_TEST_PROGRAMS "/lock_clock_program", store.uri(), what, lock});
  }
  static FencingToken token_in(const std::string& answer) {
    EXPECT_TRUE(answer.starts_with("granted ")) << answer;
    return {std::stoull("0" + answer.substr(std::min<std::size_t>(answer.size(), 8)))};
  }

  std::string name = name_for_test();
  LockClient client{store.uri(), as_new_runner()};
};
ON_STORES_BETWEEN_PROCESSES(LockClockTest);

const std::vector<std::string> offsets{"+3600s", "-3600s"};

TEST_P(LockClockTest, TheClockIsReallyWrong) {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  for (const auto& offset : offsets) {
    EXPECT_GT(std::abs(std::stol(with_wrong_clock(offset, "now")) - long(now)), 1'800) << offset;
  }
}

TEST_P(LockClockTest, NobodyGetsALockThatIsHeld) {
  const Lock lock = client.acquire(name, {.ttl = 60s}).value();
  const Lock reader = SharedLock{client, name + ":shared"}.read({.ttl = 60s}).value();
  for (const auto& offset : offsets) {
    EXPECT_EQ(with_wrong_clock(offset, "try", name), "busy") << offset;
    EXPECT_EQ(with_wrong_clock(offset, "try", name + ":shared"), "busy") << offset;
  }
}

TEST_P(LockClockTest, NobodyTakesALockFromAHolderWithAWrongClock) {
  for (const auto& offset : offsets) {
    Process holder(with_clock_off(
        offset, {LEASEHOLD_TEST_PROGRAMS "/lock_holder_program", store.uri(), name, "60000"}));
    ASSERT_TRUE(holder.read_line(patience).value_or("").starts_with("held ")) << offset;
    const auto refused = client.acquire(name, {.on_conflict = OnConflict::fail_fast});
    ASSERT_FALSE(refused) << offset;
    EXPECT_LE(refused.refusal().holder->remaining, 60s) << offset;
    EXPECT_GT(refused.refusal().holder->remaining, 10s) << offset;
    EXPECT_FALSE(client.acquire(name, {.wait = 0ms, .on_conflict = OnConflict::steal_stale}))
        << offset;
    holder.close_input();  // it releases and ends
    EXPECT_TRUE(holder.wait(patience)) << offset;
  }
}

TEST_P(LockClockTest, TokensGrowAllTheSame) {
  FencingToken last = client.acquire(name)->token();
  for (int i = 0; i < 3; ++i) {
    for (const auto& offset : offsets) {
      const FencingToken theirs = token_in(with_wrong_clock(offset, "try", name));
      EXPECT_GT(theirs, last) << offset;
      last = client.acquire(name)->token();
      EXPECT_GT(last, theirs) << offset;
    }
  }
}

}  // namespace
}  // namespace leasehold::testing
