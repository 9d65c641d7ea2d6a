// Only the database's clock judges: clients whose clocks are a minute off, in both directions.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>

#include "tests/integration/task_fixture.hpp"
#include "tests/support/faketime.hpp"
#include "tests/support/process.hpp"

namespace leasehold {
namespace {

class TaskClockTest : public TaskTest, public ::testing::WithParamInterface<std::string> {
 protected:
  /// What the program says when its clock is off by the parameter.
  static std::string with_wrong_clock(const std::string& what) {
    auto done = testing::run(
        {.argv = testing::with_clock_off(
             GetParam(), {LEASEHOLD_TEST_PROGRAMS "/task_clock_program", uri(), what})});
    EXPECT_TRUE(done.status.success()) << done.output;
    while (done.output.ends_with('\n')) done.output.pop_back();
    return done.output;
  }
};

TEST_P(TaskClockTest, TheClockIsReallyWrong) {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  EXPECT_GT(std::abs(std::stol(with_wrong_clock("now")) - now), 45);
}

TEST_P(TaskClockTest, LeasesWhatIsDueAndKeepsIt) {
  TaskQueue queue{uri()};
  queue.enqueue({.type = "t"});
  EXPECT_EQ(with_wrong_clock("lease"), "kept");
  // The lease ends 30 s from now by the database's clock, whatever the client's says.
  EXPECT_EQ(sql("SELECT lease_expiry - now() BETWEEN interval '1 s' AND interval '30 s' FROM "
                "leasehold.tasks"),
            "t");
  EXPECT_TRUE(Recovery{queue}.run_once().tasks.empty());
}

TEST_P(TaskClockTest, DoesNotLeaseWhatIsNotDue) { EXPECT_EQ(with_wrong_clock("delayed"), "0"); }

TEST_P(TaskClockTest, RecoversWhatHasExpiredAndNothingElse) {
  TaskQueue queue{uri()};
  queue.enqueue(std::vector<NewTask>(2, {.type = "t"}));
  auto leases = queue.lease({.types = {"t"}, .limit = 2, .duration = 30s});
  ASSERT_EQ(leases.size(), 2U);
  EXPECT_EQ(with_wrong_clock("recover"), "0") << "a living lease";
  expire(leases[0].id());
  EXPECT_EQ(with_wrong_clock("recover"), "1");
  EXPECT_EQ(leases[0].complete(), LeaseWrite::stale);
  EXPECT_EQ(leases[1].complete(), LeaseWrite::accepted);
}

INSTANTIATE_TEST_SUITE_P(MinuteOff, TaskClockTest, ::testing::Values("+60s", "-60s"),
                         [](const auto& clock) {
                           return clock.param[0] == '+' ? "ahead" : "behind";
                         });

}  // namespace
}  // namespace leasehold
