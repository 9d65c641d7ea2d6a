// Expired leases are taken back by those who lease, without any daemon.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/support/eventually.hpp"
#include "tests/support/task_store.hpp"

namespace leasehold::testing {
namespace {

class TaskExpiryTest : public OnEveryTaskStore {
 protected:
  /// A worker that crashes with the task in its hands.
  static void crash_with(TaskId id) {
    TaskQueue crashing{uri(), {.recovery = std::nullopt}};
    auto lease = lease_one(crashing, "t", "crashed");
    EXPECT_EQ(lease.id(), id);
    lease.abandon();
    expire(id);
  }
};
ON_EVERY_STORE(TaskExpiryTest);

TEST_P(TaskExpiryTest, WhoLooksForTasksGetsThoseOfACrashedWorker) {
  TaskQueue crashing{uri()};
  const TaskId id = crashing.enqueue({.type = "t", .payload = "1"}).id;
  auto crashed = crashing.lease({.types = {"t"}, .duration = 100ms, .worker = "crashed"});
  ASSERT_EQ(crashed.size(), 1U);

  TaskQueue queue{uri()};
  std::vector<TaskLease> leases;
  ASSERT_TRUE(eventually(
      [&] {
        leases = queue.lease({.types = {"t"}});
        return !leases.empty();
      },
      60s));
  EXPECT_EQ(leases.front().id(), id);
  EXPECT_EQ(leases.front().payload(), "1");
  EXPECT_EQ(leases.front().attempt(), 2);
  EXPECT_EQ(leases.front().crash_count(), 1);
  EXPECT_EQ(queue.stats().recovered, 1U);
  EXPECT_NE(queue.get(id)->last_error.find("crashed expired"), std::string::npos);
  EXPECT_EQ(crashed.front().complete(), LeaseWrite::stale);
  EXPECT_EQ(leases.front().complete(), LeaseWrite::accepted);
}

TEST_P(TaskExpiryTest, TasksOfOtherTypesAreTakenBackToo) {
  TaskQueue queue{uri()};
  const TaskId id = queue.enqueue({.type = "t"}).id;
  crash_with(id);
  EXPECT_TRUE(eventually(
      [&] {
        EXPECT_TRUE(queue.lease({.types = {"other"}}).empty());
        return queue.get(id)->state == TaskState::pending;
      },
      60s));
}

TEST_P(TaskExpiryTest, WithoutRecoveryExpiredLeasesAreLeftToADaemon) {
  TaskQueue queue{uri(), {.recovery = std::nullopt}};
  const TaskId id = queue.enqueue({.type = "t"}).id;
  crash_with(id);
  // A queue looks after the others when it leases for the first time.
  for (int i = 0; i < 10; ++i) {
    TaskQueue first_call{uri(), {.recovery = std::nullopt}};
    EXPECT_TRUE(first_call.lease({.types = {"t"}}).empty());
  }
  EXPECT_EQ(queue.get(id)->state, TaskState::leased);
  EXPECT_EQ(Recovery{queue}.run_once().requeued, 1U);
  lease_one(queue).complete();
}

TEST_P(TaskExpiryTest, TheQueuesLimitOfCrashesIsHonoured) {
  TaskQueue queue{uri(), {.recovery = RecoveryOptions{.max_crashes = 2}}};
  const TaskId id = queue.enqueue({.type = "t", .max_attempts = 100}).id;
  const auto leases_nothing = [&] { return queue.lease({.types = {"other"}}).empty(); };
  crash_with(id);
  EXPECT_TRUE(eventually(
      [&] { return leases_nothing() && queue.get(id)->state == TaskState::pending; }, 60s));
  crash_with(id);
  EXPECT_TRUE(
      eventually([&] { return leases_nothing() && queue.get(id)->state == TaskState::dead; }, 60s));
  EXPECT_EQ(queue.get(id)->crash_count, 2);
  EXPECT_EQ(queue.get(id)->leased_by, "crashed");
  EXPECT_EQ(queue.stats().dead, 1U);
}

TEST_P(TaskExpiryTest, ALimitOfCrashesThatIsWrongIsRefused) {
  EXPECT_THROW((TaskQueue{uri(), {.recovery = RecoveryOptions{.max_crashes = 0}}}),
               InvalidArgument);
}

}  // namespace
}  // namespace leasehold::testing
