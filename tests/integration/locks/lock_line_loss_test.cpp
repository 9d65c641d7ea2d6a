// The line when the store loses all its data.
#include <gtest/gtest.h>

#include "tests/integration/locks/lock_line_fixture.hpp"

namespace leasehold::testing {
namespace {

using Clock = std::chrono::steady_clock;
using Then = Waiter::Then;

/// All data is lost. That costs those who wait a second or two and never a hang. The bound is
/// twice as long, for machines that are busy with other things, and longer by what this one stood
/// still.
class LockLineDataLossTest : public LockLineFixture<OnEveryLockStoreOfItsOwn> {
 protected:
  std::chrono::milliseconds most_delay() {
    return 4s + std::chrono::duration_cast<std::chrono::milliseconds>(stalls_.time_lost());
  }

  void expect_all_get_it_soon_after(Clock::time_point start) {
    for (Waiter& waiter : waiters) {
      EXPECT_TRUE(waiter.got_it());
      EXPECT_LT(waiter.ended_at() - start, most_delay());
    }
  }

 private:
  StallWatch stalls_{100ms};
};
ON_EVERY_STORE(LockLineDataLossTest);

TEST_P(LockLineDataLossTest, IsSurvived) {
  hold();
  join("a", {}, Then::pass);
  join("b", {}, Then::pass);
  store.lose_all_data();
  expect_all_get_it_soon_after(Clock::now());
}

TEST_P(LockLineDataLossTest, WaitersComeBackToTheirPlaces) {
  repeat_if_evicted([&] {
    client.force_release(name);  // who has it after an attempt that failed
    hold();
    for (const char* id : {"a", "b", "c"}) join(id);
    store.lose_all_data_and_occupy(name);
    ASSERT_TRUE(eventually([&] { return line_length(client, name) == 3; }, most_delay()));
    join("late");
    client.force_release(name);
    for (std::size_t i = 0; i < waiters.size(); ++i) {
      EXPECT_EQ(holder_of(client, name), ids[i]);
      waiters[i].release();
    }
  });
}

TEST_P(LockLineDataLossTest, NewcomersOfTheSameProcessDoNotHideThatTheOthersFellOutOfTheLine) {
  hold();
  join("a", {}, Then::pass);
  join("b", {}, Then::pass);
  store.lose_all_data_and_occupy(name);
  // At once: before anybody has looked after the line.
  start("newcomer", {}, Then::pass);
  EXPECT_TRUE(eventually([&] { return line_length(client, name) == 3; }, most_delay()));
  client.force_release(name);
  expect_all_get_it_soon_after(Clock::now());
}

}  // namespace
}  // namespace leasehold::testing
