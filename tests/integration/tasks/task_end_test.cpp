// How a lease ends: completed, failed, released or abandoned, alone and in batches.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/task_store.hpp"

namespace leasehold::testing {
namespace {

class TaskEndTest : public OnEveryTaskStore {};
ON_EVERY_STORE(TaskEndTest);

TEST_P(TaskEndTest, ALeaseIsCompletedOnceInABatch) {
  TaskQueue queue{uri()};
  queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  const std::vector<Completion> twice(2, {&lease, "1"});
  EXPECT_THROW(queue.complete(twice), InvalidArgument);
  EXPECT_EQ(lease.complete("1"), LeaseWrite::accepted);
}

TEST_P(TaskEndTest, AFailedTaskComesBackLaterAndThenDies) {
  TaskQueue queue{uri()};
  const auto task = queue.enqueue({.type = "t", .max_attempts = 2});
  EXPECT_EQ(lease_one(queue).fail("first", Retry::after(1h)), FailOutcome::retried);
  auto record = queue.get(task.id);
  EXPECT_EQ(record->state, TaskState::pending);
  EXPECT_EQ(record->last_error, "first");
  EXPECT_EQ(record->attempts, 1);
  EXPECT_GT(record->run_at, record->updated_at + 59min);
  EXPECT_TRUE(queue.lease({.types = {"t"}}).empty());

  make_due();
  EXPECT_EQ(lease_one(queue).fail("second"), FailOutcome::dead);
  record = queue.get(task.id);
  EXPECT_EQ(record->state, TaskState::dead);
  EXPECT_EQ(record->last_error, "second");
  EXPECT_TRUE(record->finished_at);

  EXPECT_EQ(queue.retry(task.id), RetryOutcome::requeued);
  EXPECT_EQ(queue.get(task.id)->attempts, 0);
  EXPECT_EQ(queue.retry(task.id), RetryOutcome::not_dead);
  EXPECT_EQ(queue.retry(TaskId{123456}), RetryOutcome::not_found);
  lease_one(queue).complete();
}

TEST_P(TaskEndTest, BackoffGrowsIsCappedAndJittered) {
  TaskQueue queue{uri(), {.backoff = {.first = 1000ms, .factor = 10, .longest = 50s}}};
  const auto task = queue.enqueue({.type = "t"});
  const std::vector<std::pair<std::chrono::milliseconds, std::chrono::milliseconds>> bounds{
      {500ms, 1000ms}, {5s, 10s}, {25s, 50s}, {25s, 50s}};
  for (const auto& [least, most] : bounds) {
    make_due();
    EXPECT_EQ(lease_one(queue).fail("no"), FailOutcome::retried);
    const auto record = queue.get(task.id);
    const auto delay = record->run_at - record->updated_at;
    EXPECT_GE(delay, least);
    EXPECT_LE(delay, most + 1ms);
  }
}

TEST_P(TaskEndTest, NeverAgainIsDeadAtOnce) {
  TaskQueue queue{uri()};
  queue.enqueue({.type = "t"});
  EXPECT_EQ(lease_one(queue).fail("hopeless", Retry::never()), FailOutcome::dead);
}

TEST_P(TaskEndTest, ADeadTaskStillSaysWhenItWasDue) {
  TaskQueue queue{uri()};
  for (const auto& [attempts, retry] :
       {std::pair{1, Retry::after(1h)}, std::pair{10, Retry::never()}}) {
    const TaskId id = queue.enqueue({.type = "t", .max_attempts = attempts}).id;
    make_due();
    const auto due = queue.get(id)->run_at;
    EXPECT_EQ(lease_one(queue).fail("no", retry), FailOutcome::dead);
    EXPECT_EQ(queue.get(id)->run_at, due);
  }
}

TEST_P(TaskEndTest, AReleasedTaskIsAsIfNeverLeased) {
  TaskQueue queue{uri()};
  const auto first = queue.enqueue({.type = "t"});
  queue.enqueue({.type = "t"});
  EXPECT_EQ(lease_one(queue).release(), LeaseWrite::accepted);
  EXPECT_EQ(queue.get(first.id)->attempts, 0);
  auto again = lease_one(queue);
  EXPECT_EQ(again.id(), first.id) << "at its old place";
  EXPECT_EQ(again.attempt(), 1);
  EXPECT_EQ(again.release_for(1h), LeaseWrite::accepted);
  auto other = lease_one(queue);
  EXPECT_NE(other.id(), first.id);
  other.complete();
}

TEST_P(TaskEndTest, AnAbandonedHandleFailsItsTask) {
  TaskQueue queue{uri()};
  const auto task = queue.enqueue({.type = "t"});
  { const auto lease = lease_one(queue); }
  const auto record = queue.get(task.id);
  EXPECT_EQ(record->state, TaskState::pending);
  EXPECT_EQ(record->attempts, 1);
  EXPECT_NE(record->last_error.find("abandoned"), std::string::npos);
}

TEST_P(TaskEndTest, BatchesNameTheStaleOnes) {
  TaskQueue queue{uri()};
  queue.enqueue(std::vector<NewTask>(5, {.type = "t"}));
  auto leases = queue.lease({.types = {"t"}, .limit = 5});
  ASSERT_EQ(leases.size(), 5U);
  const TaskId cancelled = leases[3].id();
  EXPECT_EQ(queue.cancel(cancelled), CancelOutcome::was_leased);
  EXPECT_EQ(queue.extend(leases), std::vector{cancelled}) << "so the worker learns of it";
  EXPECT_FALSE(leases[3].valid());
  leases.erase(leases.begin() + 3);

  const TaskId lost = leases[1].id();
  EXPECT_EQ(queue.cancel(lost), CancelOutcome::was_leased);
  std::vector<Completion> completions;
  for (auto& lease : leases) completions.push_back({&lease, "42"});
  EXPECT_EQ(queue.complete(completions), std::vector{lost});
  EXPECT_EQ(queue.get(leases[0].id())->result, "42");
  EXPECT_EQ(queue.get(lost)->state, TaskState::cancelled);
  EXPECT_EQ(queue.stats().stale_writes, 2U);
}

TEST_P(TaskEndTest, ABatchThatIsDeletedNamesTheStaleOnesAndLeavesThemAlone) {
  TaskQueue queue{uri(), {.retention = Retention::delete_at_once()}};
  queue.enqueue(std::vector<NewTask>(10, {.type = "t"}));
  auto leases = queue.lease({.types = {"t"}, .limit = 10});
  ASSERT_EQ(leases.size(), 10U);
  const TaskId cancelled = leases[2].id();
  queue.cancel(cancelled);
  const TaskId lost = leases[7].id();
  expire(lost);
  ASSERT_EQ(Recovery{queue}.run_once().tasks.size(), 1U);
  auto others = lease_one(queue);
  ASSERT_EQ(others.id(), lost);

  EXPECT_EQ(queue.complete(leases), (std::vector{cancelled, lost}));
  EXPECT_EQ(count("true"), 2);
  EXPECT_EQ(queue.get(cancelled)->state, TaskState::cancelled);
  EXPECT_EQ(others.complete(), LeaseWrite::accepted);
}

TEST_P(TaskEndTest, ABatchThatIsDeletedTakesNothingFromBetweenItsTasks) {
  TaskQueue queue{uri(), {.retention = Retention::delete_at_once()}};
  queue.enqueue(std::vector<NewTask>(12, {.type = "t"}));
  auto leases = queue.lease({.types = {"t"}, .limit = 12});
  ASSERT_EQ(leases.size(), 12U);
  std::vector<TaskLease> odd;
  std::vector<TaskLease> even;
  for (std::size_t i = 0; i < 12; ++i) (i % 2 == 0 ? even : odd).push_back(std::move(leases[i]));
  EXPECT_TRUE(queue.complete(even).empty());
  EXPECT_EQ(count("state = 'leased'"), 6);
  EXPECT_TRUE(queue.complete(odd).empty());
  EXPECT_EQ(count("true"), 0);
}

TEST_P(TaskEndTest, ABatchTakesNothingFromBetweenItsTasks) {
  TaskQueue queue{uri()};
  for (int i = 0; i < 8; ++i) {
    queue.enqueue({.type = "t"});
    queue.enqueue({.type = "other"});
    queue.enqueue({.type = "t", .priority = -1});
  }
  auto leases = queue.lease({.types = {"t"}, .limit = 12});
  ASSERT_EQ(leases.size(), 12U);
  EXPECT_EQ(count("state = 'leased'"), 12);
  EXPECT_EQ(count("state = 'leased' AND type = 't' AND priority = 0"), 8);
  EXPECT_EQ(count("state = 'leased' AND type = 't' AND priority = -1"), 4);
  EXPECT_TRUE(queue.complete(leases).empty());
}

TEST_P(TaskEndTest, ReleasesMany) {
  TaskQueue queue{uri()};
  queue.enqueue(std::vector<NewTask>(5, {.type = "t"}));
  auto leases = queue.lease({.types = {"t"}, .limit = 5});
  EXPECT_TRUE(queue.release(leases).empty());
  auto again = queue.lease({.types = {"t"}, .limit = 5});
  EXPECT_EQ(again.size(), 5U);
  EXPECT_TRUE(queue.complete(again).empty());
}

TEST_P(TaskEndTest, AnEndedLeaseCanNotBeEndedAgain) {
  TaskQueue queue{uri()};
  queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  EXPECT_EQ(lease.complete(), LeaseWrite::accepted);
  EXPECT_THROW(lease.complete(), InvalidArgument);
  EXPECT_THROW(lease.fail("no"), InvalidArgument);
  EXPECT_THROW(lease.release(), InvalidArgument);
  EXPECT_EQ(lease.extend(), LeaseWrite::stale);
}

TEST_P(TaskEndTest, CompletedTasksAreKeptOrDeleted) {
  TaskQueue deleting{uri(), {.retention = Retention::delete_at_once()}};
  const auto gone = deleting.enqueue({.type = "t"});
  EXPECT_EQ(lease_one(deleting).complete("1"), LeaseWrite::accepted);
  EXPECT_FALSE(deleting.get(gone.id));

  TaskQueue keeping{uri(), {.retention = Retention::keep_for(1h)}};
  keeping.enqueue(std::vector<NewTask>(25, {.type = "t"}));
  keeping.enqueue(std::vector<NewTask>(5, {.type = "u"}));
  auto leases = keeping.lease({.types = {"t", "u"}, .limit = 30});
  ASSERT_EQ(leases.size(), 30U);
  EXPECT_TRUE(keeping.complete(leases).empty());
  EXPECT_EQ(keeping.remove_finished(), 0U);
  sql("UPDATE " + finished_tasks() + " SET finished_at = " + seconds_ago(7'200) +
      " WHERE id % 2 = 0");
  const auto old = static_cast<std::uint64_t>(count("id % 2 = 0"));
  EXPECT_EQ(keeping.remove_finished({.completed = 1h, .chunk = 4}), old);
  EXPECT_EQ(count("true"), int(30 - old));

  TaskQueue hoarding{uri(), {.retention = Retention::keep_forever()}};
  EXPECT_EQ(hoarding.remove_finished(), 0U);
}

TEST_P(TaskEndTest, AnErrorTextOfAnyKindIsKept) {
  TaskQueue queue{uri()};
  const auto task = queue.enqueue({.type = "t"});
  lease_one(queue).fail(std::string("bad \xff\0 byte", 11) + std::string(10'000, 'x'));
  const auto kept = queue.get(task.id)->last_error;
  EXPECT_TRUE(kept.starts_with("bad ?? byte"));
  EXPECT_EQ(kept.size(), 4096U);
}

}  // namespace
}  // namespace leasehold::testing
