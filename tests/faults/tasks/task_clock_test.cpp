// Only the store's clock judges leases: clients whose time of day is off, in both directions.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>

#include "tests/support/faketime.hpp"
#include "tests/support/task_store.hpp"

namespace leasehold::testing {
namespace {

class TaskClockTest : public OnEveryTaskStore {
 protected:
  /// What task_clock_program says when its clock is off.
  static std::string with_wrong_clock(const std::string& offset, const std::string& what) {
    return said_with_clock_off(offset,
                               {LEASEHOLD_TEST_PROGRAMS "/task_clock_program", uri(), what});
  }

  /// Due whatever the clock says: on SQLite the time of day judges that.
  void enqueue_due() {
    queue.enqueue({.type = "t", .run_at = std::chrono::system_clock::now() - 2h});
  }

  TaskQueue queue{uri()};
};
ON_STORES_BETWEEN_PROCESSES(TaskClockTest);

const std::vector<std::string> offsets{"+3600s", "-3600s"};

TEST_P(TaskClockTest, TheClockIsReallyWrong) {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  for (const auto& offset : offsets) {
    EXPECT_GT(std::abs(std::stol(with_wrong_clock(offset, "now")) - long(now)), 1'800) << offset;
  }
}

TEST_P(TaskClockTest, WhatIsLeasedIsTheirsForTheWholeLease) {
  for (const auto& offset : offsets) {
    enqueue_due();
    EXPECT_EQ(with_wrong_clock(offset, "lease"), "kept") << offset;  // for 30 s, and abandoned
    EXPECT_TRUE(Recovery{queue}.run_once().tasks.empty()) << offset;
    EXPECT_TRUE(queue.lease({.types = {"t"}}).empty()) << offset;
    if (in_postgres()) {
      EXPECT_EQ(sql("SELECT lease_expiry - now() BETWEEN interval '1 s' AND interval '30 s' FROM "
                    "leasehold.tasks WHERE state = 'leased'"),
                "t")
          << offset;
    }
    expire_all();
    EXPECT_EQ(Recovery{queue}.run_once().requeued, 1U) << offset;
    EXPECT_EQ(queue.cancel(queue.list({.state = TaskState::pending}).front().id),
              CancelOutcome::was_pending);
  }
}

TEST_P(TaskClockTest, DoesNotLeaseWhatIsNotDue) {
  for (const auto& offset : offsets) EXPECT_EQ(with_wrong_clock(offset, "delayed"), "0") << offset;
}

TEST_P(TaskClockTest, TakesNothingFromALivingHolderAndRecoversWhatHasExpired) {
  for (const auto& offset : offsets) {
    enqueue_due();
    enqueue_due();
    auto leases = queue.lease({.types = {"t"}, .limit = 2, .duration = 30s});
    ASSERT_EQ(leases.size(), 2U);
    EXPECT_EQ(with_wrong_clock(offset, "recover"), "0") << offset;
    EXPECT_EQ(with_wrong_clock(offset, "lease"), "none") << offset;
    EXPECT_EQ(leases[0].extend(), LeaseWrite::accepted) << offset;
    expire(leases[0].id());
    EXPECT_EQ(with_wrong_clock(offset, "recover"), "1") << offset;
    EXPECT_EQ(leases[0].complete(), LeaseWrite::stale) << offset;
    EXPECT_EQ(leases[1].complete(), LeaseWrite::accepted) << offset;
    EXPECT_EQ(queue.cancel(leases[0].id()), CancelOutcome::was_pending) << offset;
  }
}

}  // namespace
}  // namespace leasehold::testing
