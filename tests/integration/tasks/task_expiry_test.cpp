// Expired leases are taken back by those who lease, without any daemon.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/eventually.hpp"
#include "tests/support/running_worker.hpp"
#include "tests/support/signal.hpp"
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
  /// A worker that crashes with so many new tasks, which will be pending or dead after recovery.
  static void crash_with_new(std::size_t pending, std::size_t dead) {
    static int number = 0;
    const std::string type = "crash" + std::to_string(++number);
    TaskQueue crashing{uri(), {.recovery = std::nullopt}};
    std::vector<NewTask> tasks(pending, {.type = type});
    tasks.insert(tasks.end(), dead, {.type = type, .max_attempts = 1});
    crashing.enqueue(tasks);
    auto leases = crashing.lease({.types = {type}, .limit = 100, .worker = "crashed"});
    EXPECT_EQ(leases.size(), tasks.size());
    for (TaskLease& lease : leases) lease.abandon();
    expire_all();
  }
  /// How many the queue says were requeued, and how many are dead.
  static std::pair<std::uint64_t, std::uint64_t> counted(TaskQueue& queue) {
    const QueueHealth health = queue.health();
    return {health.recovered_requeued, health.recovered_dead};
  }
};
ON_EVERY_STORE(TaskExpiryTest);

TEST_P(TaskExpiryTest, AWorkerTakesUpWhatACrashedOneHeld) {
  TaskQueue queue{uri()};
  const TaskId id = queue.enqueue({.type = "t"}).id;
  crash_with(id);
  const Signal done;
  Worker worker{queue};
  worker.on("t", [&, done](Task& task) {
    EXPECT_EQ(task.id(), id);
    done.set();
  });
  const RunningWorker running{worker};
  EXPECT_TRUE(done.wait());
}

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

using Counted = std::pair<std::uint64_t, std::uint64_t>;

TEST_P(TaskExpiryTest, RecoveriesOfAllProcessesAreCountedByOutcome) {
  TaskQueue queue{uri()};
  EXPECT_EQ(counted(queue), Counted(0, 0));

  crash_with_new(3, 1);
  Recovery{queue}.run_once();
  EXPECT_EQ(counted(queue), Counted(3, 1));

  crash_with_new(2, 2);
  TaskQueue looking{uri()};
  EXPECT_TRUE(eventually(
      [&] {
        EXPECT_TRUE(looking.lease({.types = {"other"}}).empty());
        return looking.stats().recovered == 4;
      },
      60s));
  EXPECT_EQ(counted(queue), Counted(5, 3)) << "a worker's recoveries too";

  Recovery{queue}.run_once();
  EXPECT_EQ(counted(queue), Counted(5, 3)) << "nothing was left";
}

TEST_P(TaskExpiryTest, ARecoveryDoesNotWaitForOneThatHangsBeforeItsCommit) {
  if (!in_postgres()) GTEST_SKIP() << "SQLite has one writer at a time";
  TaskQueue queue{uri(), {.postgres = {.command_timeout = 5s}, .recovery = std::nullopt}};
  crash_with_new(1, 1);
  Recovery{queue}.run_once();

  crash_with_new(3, 1);
  pqxx::connection connection{uri()};
  pqxx::work hanging{connection};
  ASSERT_EQ(hanging.exec("SELECT * FROM leasehold.recover(0, 0, 1, 1000000, 3, 1000)").size(), 1U);
  EXPECT_EQ(Recovery{queue}.run_once().tasks.size(), 3U);
  EXPECT_EQ(counted(queue), Counted(3, 2));
  hanging.commit();
  EXPECT_EQ(counted(queue), Counted(4, 2));
}

TEST_P(TaskExpiryTest, ALimitOfCrashesThatIsWrongIsRefused) {
  EXPECT_THROW((TaskQueue{uri(), {.recovery = RecoveryOptions{.max_crashes = 0}}}),
               InvalidArgument);
}

}  // namespace
}  // namespace leasehold::testing
