// Which expired leases count as crashes, what sets the count back, and who had a task that is dead.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tasks/queue_core.hpp"
#include "tests/support/task_store.hpp"

namespace leasehold::testing {
namespace {

class TaskCrashCountTest : public OnEveryTaskStore {
 protected:
  /// Leases as a worker does that starts only some of the tasks at once.
  std::vector<LeasedTask> lease_some(std::size_t starts, std::vector<std::string> types = {"t"},
                                     std::size_t limit = 100) {
    LeaseRequest request{.types = std::move(types), .limit = limit, .worker = "w"};
    return QueueCore::of(queue)->lease_tasks(request, starts).tasks;
  }
  LeasedTask lease_unstarted() {
    auto tasks = lease_some(0);
    EXPECT_EQ(tasks.size(), 1U);
    return tasks.empty() ? LeasedTask{} : tasks.front();
  }
  TaskStore& store() { return *QueueCore::of(queue)->store; }
  /// The lease expires, and is taken back.
  RecoveredTask crash(TaskId id, int max_crashes = 1'000) {
    expire(id);
    const auto report = Recovery{queue, {.max_crashes = max_crashes}}.run_once();
    EXPECT_EQ(report.tasks.size(), 1U);
    return report.tasks.empty() ? RecoveredTask{} : report.tasks.front();
  }
  TaskRecord record(TaskId id) { return queue.get(id).value_or(TaskRecord{}); }

  TaskQueue queue{uri(), {.recovery = std::nullopt}};
};
ON_EVERY_STORE(TaskCrashCountTest);

TEST_P(TaskCrashCountTest, ATaskThatWasNotStartedHasNotCrashed) {
  const TaskId id = queue.enqueue({.type = "t", .max_attempts = 1}).id;
  const LeasedTask task = lease_unstarted();
  EXPECT_FALSE(task.started);
  EXPECT_FALSE(task.suspect);
  const auto recovered = crash(id, 1);
  EXPECT_EQ(recovered.state, TaskState::pending) << "although it was the last attempt";
  EXPECT_EQ(recovered.crash_count, 0);
  EXPECT_EQ(record(id).attempts, 0);
  EXPECT_EQ(record(id).crash_count, 0);
  EXPECT_EQ(record(id).leased_by, "");
}

TEST_P(TaskCrashCountTest, ASuspectIsAlwaysLeasedAsStarted) {
  const TaskId id = queue.enqueue({.type = "t"}).id;
  lease_unstarted();
  EXPECT_EQ(crash(id).crash_count, 0);
  const LeasedTask suspect = lease_unstarted();
  EXPECT_TRUE(suspect.suspect);
  EXPECT_TRUE(suspect.started);
  EXPECT_EQ(suspect.attempts, 1);
  const auto recovered = crash(id, 1);
  EXPECT_EQ(recovered.crash_count, 1);
  EXPECT_EQ(recovered.state, TaskState::dead);
}

// Otherwise a crash, before those that cannot start are given back, would count for all of them.
TEST_P(TaskCrashCountTest, NoMoreSuspectsAreLeasedThanCanStart) {
  const auto due = std::chrono::system_clock::now() - 1h;
  for (int i = 0; i < 6; ++i) queue.enqueue({.type = "t", .run_at = due});
  EXPECT_EQ(lease_some(0).size(), 6U);
  expire_all();
  EXPECT_EQ(Recovery{queue}.run_once().requeued, 6U);
  const TaskId innocent = queue.enqueue({.type = "t", .priority = 1, .run_at = due}).id;

  const auto two = lease_some(0);
  ASSERT_EQ(two.size(), 2U) << "a single suspect, if none can start";
  EXPECT_EQ(two[0].key.id, innocent);
  EXPECT_TRUE(two[1].suspect);
  EXPECT_EQ(lease_some(3).size(), 3U);
  EXPECT_EQ(lease_some(100).size(), 2U) << "all the others";
}

TEST_P(TaskCrashCountTest, TheFirstTasksOfALeaseAreStarted) {
  const auto due = std::chrono::system_clock::now() - 1h;
  const auto add = [&](int priority) {
    return queue.enqueue({.type = "t", .priority = priority, .run_at = due}).id;
  };
  const TaskId last = add(0);
  const TaskId first = add(9);
  const TaskId third = add(1);
  const TaskId second = add(2);
  const auto tasks = lease_some(2);
  ASSERT_EQ(tasks.size(), 4U);
  const TaskId order[] = {first, second, third, last};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(tasks[i].key.id, order[i]);
    EXPECT_EQ(tasks[i].started, i < 2) << i;
  }
  expire_all();
  EXPECT_EQ(Recovery{queue}.run_once().requeued, 4U);
  EXPECT_EQ(record(first).crash_count, 1);
  EXPECT_EQ(record(second).crash_count, 1);
  EXPECT_EQ(record(third).crash_count, 0);
  EXPECT_EQ(record(last).crash_count, 0);
}

// In batches that stores write in different ways.
TEST_P(TaskCrashCountTest, AsManyAreStartedAsWereAskedFor) {
  for (const std::size_t limit : {3U, 20U}) {
    for (const std::size_t starts : {0U, 1U, 2U, 19U, 20U, 1'000U}) {
      queue.enqueue(std::vector<NewTask>(limit, {.type = "t"}));
      queue.enqueue(std::vector<NewTask>(limit, {.type = "u"}));
      const auto tasks = lease_some(starts, {"t", "u"}, limit);
      ASSERT_EQ(tasks.size(), limit);
      const std::size_t started = std::min(starts, limit);
      const auto is_started = [](const LeasedTask& task) { return task.started; };
      EXPECT_EQ(std::count_if(tasks.begin(), tasks.end(), is_started), std::ptrdiff_t(started));
      if (!in_postgres()) {  // which looks at one type after the other
        EXPECT_TRUE(std::is_partitioned(tasks.begin(), tasks.end(), is_started)) << starts;
      }
      expire_all();
      EXPECT_EQ(Recovery{queue}.run_once().requeued, limit);
      for (const LeasedTask& task : tasks) {
        EXPECT_EQ(record(task.key.id).crash_count, task.started ? 1 : 0);
        EXPECT_EQ(record(task.key.id).attempts, task.started ? 1 : 0);
      }
      sql("DELETE FROM leasehold.tasks");
    }
  }
}

TEST_P(TaskCrashCountTest, ARenewalTellsThatATaskWasStarted) {
  const TaskId id = queue.enqueue({.type = "t"}).id;
  const Renewable unstarted{lease_unstarted().key, false};
  const Renewable started{unstarted.key, true};
  EXPECT_EQ(store().extend({&unstarted, 1}, 1h).renewed, std::vector{unstarted.key.name()});
  EXPECT_EQ(store().extend({&started, 1}, 1h).renewed, std::vector{started.key.name()});
  EXPECT_EQ(store().extend({&unstarted, 1}, 1h).renewed, std::vector{unstarted.key.name()})
      << "changes nothing";
  EXPECT_EQ(crash(id).crash_count, 1);

  const Renewable again{lease_unstarted().key, false};
  EXPECT_EQ(store().extend({&again, 1}, 1h).renewed, std::vector{again.key.name()});
  EXPECT_EQ(crash(id).crash_count, 2) << "it was leased as started, because it is suspect";
}

TEST_P(TaskCrashCountTest, ARenewalDoesNotStartATask) {
  const TaskId id = queue.enqueue({.type = "t"}).id;
  const Renewable unstarted{lease_unstarted().key, false};
  EXPECT_EQ(store().extend({&unstarted, 1}, 1h).renewed, std::vector{unstarted.key.name()});
  EXPECT_EQ(crash(id).crash_count, 0);
}

TEST_P(TaskCrashCountTest, AFailureSetsTheCountBack) {
  const TaskId id = queue.enqueue({.type = "t"}).id;
  for (int round = 0; round < 3; ++round) {
    for (int crashes = 1; crashes <= 2; ++crashes) {
      lease_one(queue).abandon();
      EXPECT_EQ(crash(id, 3).crash_count, crashes);
    }
    EXPECT_EQ(lease_one(queue).fail("in order", Retry::after(0ms)), FailOutcome::retried);
    EXPECT_EQ(record(id).crash_count, 0);
  }
  EXPECT_FALSE(lease_unstarted().suspect);
}

TEST_P(TaskCrashCountTest, ATaskThatFailedForGoodHasNotCrashed) {
  const TaskId id = queue.enqueue({.type = "t"}).id;
  lease_one(queue).abandon();
  EXPECT_EQ(crash(id).crash_count, 1);
  EXPECT_EQ(lease_one(queue).fail("in order", Retry::never()), FailOutcome::dead);
  EXPECT_EQ(record(id).crash_count, 0);
}

TEST_P(TaskCrashCountTest, AReleaseSetsTheCountBackUnlessTheTaskWasNotStarted) {
  const TaskId id = queue.enqueue({.type = "t"}).id;
  lease_one(queue).abandon();
  EXPECT_EQ(crash(id).crash_count, 1);

  const LeaseKey given_back = lease_unstarted().key;
  const auto accepted = store().release({&given_back, 1}, std::nullopt, GivenBack::unstarted);
  EXPECT_EQ(accepted, std::vector{given_back.name()});
  EXPECT_EQ(record(id).crash_count, 1) << "nobody has tried";

  auto lease = lease_one(queue);
  EXPECT_TRUE(QueueCore::state(lease).task.suspect);
  EXPECT_EQ(lease.release(), LeaseWrite::accepted);
  EXPECT_EQ(record(id).crash_count, 0);
  const LeasedTask next = lease_unstarted();
  EXPECT_FALSE(next.suspect);
  EXPECT_FALSE(next.started);
}

TEST_P(TaskCrashCountTest, ARetryByAPersonBeginsAnew) {
  const TaskId id = queue.enqueue({.type = "t"}).id;
  lease_one(queue).abandon();
  EXPECT_EQ(crash(id, 1).state, TaskState::dead);
  EXPECT_EQ(queue.retry(id), RetryOutcome::requeued);
  EXPECT_EQ(record(id).crash_count, 0);
  EXPECT_EQ(record(id).leased_by, "");
  EXPECT_FALSE(lease_unstarted().suspect);
}

TEST_P(TaskCrashCountTest, ADeadOrCancelledTaskNamesTheWorkerThatHadIt) {
  const TaskId crashed = queue.enqueue({.type = "t", .max_attempts = 1}).id;
  lease_one(queue, "t", "crashed").abandon();
  EXPECT_EQ(crash(crashed).state, TaskState::dead);
  EXPECT_EQ(record(crashed).leased_by, "crashed");

  const TaskId failed = queue.enqueue({.type = "t", .max_attempts = 2}).id;
  EXPECT_EQ(lease_one(queue, "t", "first").fail("no", Retry::after(0ms)), FailOutcome::retried);
  EXPECT_EQ(record(failed).leased_by, "");
  EXPECT_EQ(lease_one(queue, "t", "second").fail("no", Retry::after(0ms)), FailOutcome::dead);
  EXPECT_EQ(record(failed).leased_by, "second");

  const TaskId hopeless = queue.enqueue({.type = "t"}).id;
  EXPECT_EQ(lease_one(queue, "t", "third").fail("no", Retry::never()), FailOutcome::dead);
  EXPECT_EQ(record(hopeless).leased_by, "third");

  const TaskId cancelled = queue.enqueue({.type = "t"}).id;
  lease_one(queue, "t", "fourth").abandon();
  EXPECT_EQ(queue.cancel(cancelled), CancelOutcome::was_leased);
  EXPECT_EQ(record(cancelled).leased_by, "fourth");

  const TaskId released = queue.enqueue({.type = "t"}).id;
  lease_one(queue, "t", "fifth").release();
  EXPECT_EQ(record(released).leased_by, "");
  EXPECT_EQ(queue.cancel(released), CancelOutcome::was_pending);
  EXPECT_EQ(record(released).leased_by, "") << "nobody had it when it ended";
}

TEST_P(TaskCrashCountTest, FailuresOfOneBatchAreAnsweredInTheirOrder) {
  queue.enqueue(std::vector<NewTask>(3, {.type = "t"}));
  const auto tasks = lease_some(100);
  ASSERT_EQ(tasks.size(), 3U);
  queue.cancel(tasks[1].key.id);
  const FailedTask failed[] = {{tasks[2].key, "third", std::nullopt},
                               {tasks[0].key, "first", 0ms},
                               {tasks[1].key, "second", 0ms}};
  EXPECT_EQ(store().fail(failed),
            (std::vector{FailOutcome::dead, FailOutcome::retried, FailOutcome::stale}));
  EXPECT_EQ(record(tasks[0].key.id).last_error, "first");
  EXPECT_EQ(record(tasks[2].key.id).last_error, "third");
  EXPECT_EQ(record(tasks[1].key.id).state, TaskState::cancelled);
}

}  // namespace
}  // namespace leasehold::testing
