// What is done with tasks that nobody has leased: update, cancel, unique keys, lists and counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/task_store.hpp"

namespace leasehold::testing {
namespace {

using Outcome = Enqueued::Outcome;

class TaskManageTest : public OnEveryTaskStore {};
ON_EVERY_STORE(TaskManageTest);

TEST_P(TaskManageTest, UpdateWantsTheVersionThatWasRead) {
  TaskQueue queue{uri()};
  const auto task = queue.enqueue({.type = "t", .payload = "1"});
  const auto read = queue.get(task.id);
  const auto changed = queue.update(task.id, read->version, {.payload = "2", .priority = 9});
  EXPECT_EQ(changed.outcome, Update::Outcome::updated);
  EXPECT_GT(changed.version, read->version);
  EXPECT_EQ(queue.get(task.id)->payload, "2");
  EXPECT_EQ(queue.get(task.id)->priority, 9);

  const auto late = queue.update(task.id, read->version, {.payload = "3"});
  EXPECT_EQ(late.outcome, Update::Outcome::conflict);
  EXPECT_EQ(late.version, changed.version);
  EXPECT_EQ(queue.get(task.id)->payload, "2");
  EXPECT_EQ(queue.stats().version_conflicts, 1U);

  auto lease = lease_one(queue);
  EXPECT_EQ(queue.update(task.id, lease.version(), {.priority = 1}).outcome,
            Update::Outcome::leased);
  EXPECT_EQ(queue.update(TaskId{99999}, {}, {}).outcome, Update::Outcome::not_found);
  lease.complete();
}

TEST_P(TaskManageTest, CancelSaysWhatItMet) {
  TaskQueue queue{uri()};
  const auto pending = queue.enqueue({.type = "t"});
  EXPECT_EQ(queue.cancel(pending.id), CancelOutcome::was_pending);
  EXPECT_EQ(queue.cancel(pending.id), CancelOutcome::finished);
  EXPECT_EQ(queue.cancel(TaskId{99999}), CancelOutcome::not_found);
  EXPECT_TRUE(queue.lease({.types = {"t"}}).empty());

  const auto running = queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  EXPECT_EQ(queue.cancel(running.id), CancelOutcome::was_leased);
  EXPECT_EQ(lease.extend(), LeaseWrite::stale);
  EXPECT_EQ(queue.retry(running.id), RetryOutcome::requeued);
  lease_one(queue).complete();
}

TEST_P(TaskManageTest, AUniqueKeyIsHeldByTheLivingOnly) {
  TaskQueue queue{uri()};
  const NewTask task{.type = "t", .unique_key = "report:7"};
  const auto first = queue.enqueue(task);
  EXPECT_EQ(first.outcome, Outcome::added);
  const auto second = queue.enqueue(task);
  EXPECT_EQ(second.outcome, Outcome::exists);
  EXPECT_EQ(second.id, first.id);

  auto lease = lease_one(queue);
  EXPECT_EQ(queue.enqueue(task).id, first.id) << "leased is living";
  EXPECT_EQ(lease.complete(), LeaseWrite::accepted);
  const auto third = queue.enqueue(task);
  EXPECT_EQ(third.outcome, Outcome::added);

  // Within one call, too.
  const NewTask other{.type = "t", .unique_key = "new"};
  const auto answers = queue.enqueue(std::vector<NewTask>{task, {.type = "t"}, other, task, other});
  ASSERT_EQ(answers.size(), 5U);
  EXPECT_EQ(answers[0].id, third.id);
  EXPECT_EQ(answers[0].outcome, Outcome::exists);
  EXPECT_EQ(answers[1].outcome, Outcome::added);
  EXPECT_EQ(answers[2].outcome, Outcome::added);
  EXPECT_EQ(answers[3].id, third.id);
  EXPECT_EQ(answers[3].outcome, Outcome::exists);
  EXPECT_EQ(answers[4].id, answers[2].id);
  EXPECT_EQ(answers[4].outcome, Outcome::exists);
  EXPECT_EQ(count("true"), 4);

  EXPECT_EQ(queue.cancel(third.id), CancelOutcome::was_pending);
  queue.enqueue(task);
  EXPECT_EQ(queue.retry(third.id), RetryOutcome::key_taken);
}

TEST_P(TaskManageTest, EnqueuesManyInOrder) {
  TaskQueue queue{uri()};
  std::vector<NewTask> tasks;
  for (int i = 0; i < 1000; ++i) {
    tasks.push_back(
        {.type = "t",
         .payload = R"({"text":"\"quoted\", {braces} \\ )" + std::to_string(i) + R"("})"});
  }
  const auto added = queue.enqueue(tasks);
  ASSERT_EQ(added.size(), tasks.size());
  EXPECT_TRUE(std::is_sorted(added.begin(), added.end(),
                             [](const auto& a, const auto& b) { return a.id < b.id; }));
  for (const std::size_t i : {0U, 500U, 999U}) {
    EXPECT_EQ(queue.get(added[i].id)->payload, tasks[i].payload);
  }
}

TEST_P(TaskManageTest, ListsInPages) {
  TaskQueue queue{uri()};
  std::vector<NewTask> tasks(25, {.type = "a"});
  tasks.push_back({.type = "b"});
  queue.enqueue(tasks);
  std::size_t seen = 0;
  TaskFilter filter{.type = "a", .limit = 10};
  for (auto page = queue.list(filter); !page.empty(); page = queue.list(filter)) {
    seen += page.size();
    filter.after = page.back().id;
  }
  EXPECT_EQ(seen, 25U);
  auto lease = lease_one(queue, "b", "me");
  const auto mine = queue.list({.state = TaskState::leased, .worker = "me"});
  ASSERT_EQ(mine.size(), 1U);
  EXPECT_EQ(mine.front().id, lease.id());
  EXPECT_TRUE(queue.list({.state = TaskState::dead}).empty());
  lease.complete();
}

TEST_P(TaskManageTest, CountsByTypeAndStateUpToALimit) {
  TaskQueue queue{uri()};
  EXPECT_TRUE(queue.counts().empty());
  std::vector<NewTask> tasks(7, {.type = "a"});
  tasks.insert(tasks.end(), 3, {.type = "b"});
  queue.enqueue(tasks);
  lease_one(queue, "a").complete();
  lease_one(queue, "a").fail("no", Retry::never());
  auto held = lease_one(queue, "b");
  queue.cancel(queue.enqueue({.type = "c"}).id);

  std::vector<std::string> found;
  for (const auto& count : queue.counts()) {
    EXPECT_FALSE(count.more);
    found.push_back(count.type + " " + to_string(count.state) + " " + std::to_string(count.number));
  }
  EXPECT_EQ(found, (std::vector<std::string>{"a completed 1", "a dead 1", "a pending 5",
                                             "b leased 1", "b pending 2", "c cancelled 1"}));
  for (const auto& count : queue.counts(2)) {
    EXPECT_LE(count.number, 2U);
    EXPECT_EQ(count.more, count.type == "a" && count.state == TaskState::pending);
  }
  held.complete();
}

}  // namespace
}  // namespace leasehold::testing
