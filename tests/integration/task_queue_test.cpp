// What a task queue promises to one program: the life of a task, its order, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "every_store_fixture.hpp"

namespace leasehold {
namespace {

using Outcome = Enqueued::Outcome;

class TaskQueueTest : public EveryStoreTest {};
LEASEHOLD_ON_EVERY_STORE(TaskQueueTest);

std::vector<std::string> payloads_of(const std::vector<TaskLease>& leases) {
  std::vector<std::string> payloads;
  for (const TaskLease& lease : leases) payloads.push_back(lease.payload());
  return payloads;
}

void finish(TaskQueue& queue, std::vector<TaskLease>& leases) {
  EXPECT_TRUE(queue.complete(leases).empty());
}

TEST_P(TaskQueueTest, ATaskIsEnqueuedLeasedAndCompleted) {
  TaskQueue queue{uri()};
  const Enqueued added = queue.enqueue({.type = "video", .payload = R"({"id": 7})", .priority = 3});
  EXPECT_EQ(added.outcome, Outcome::added);

  auto leases = queue.lease({.types = {"video"}, .duration = 30s, .worker = "worker 1"});
  ASSERT_EQ(leases.size(), 1U);
  TaskLease& lease = leases.front();
  EXPECT_EQ(lease.id(), added.id);
  EXPECT_EQ(lease.type(), "video");
  EXPECT_EQ(lease.payload(), R"({"id": 7})") << "kept to the letter";
  EXPECT_EQ(lease.priority(), 3);
  EXPECT_EQ(lease.attempt(), 1);
  EXPECT_EQ(lease.max_attempts(), 10);
  EXPECT_EQ(lease.worker(), "worker 1");
  EXPECT_TRUE(lease.valid());

  auto record = queue.get(added.id);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->state, TaskState::leased);
  EXPECT_EQ(record->leased_by, "worker 1");
  EXPECT_EQ(record->version, lease.version());
  EXPECT_TRUE(record->lease_expiry);

  EXPECT_EQ(lease.progress(R"({"pct":50})"), LeaseWrite::accepted);
  EXPECT_EQ(queue.get(added.id)->progress, R"({"pct":50})");
  EXPECT_EQ(lease.complete(R"({"frames":9})"), LeaseWrite::accepted);
  EXPECT_FALSE(lease.valid());

  record = queue.get(added.id);
  EXPECT_EQ(record->state, TaskState::completed);
  EXPECT_EQ(record->result, R"({"frames":9})");
  EXPECT_TRUE(record->finished_at);
  EXPECT_TRUE(queue.lease({.types = {"video"}}).empty());
}

TEST_P(TaskQueueTest, LeasesByPriorityThenRunAtThenId) {
  TaskQueue queue{uri()};
  const auto now = std::chrono::system_clock::now();
  const std::vector<NewTask> tasks{
      {.type = "t", .payload = "1", .run_at = now - 10s},
      {.type = "t", .payload = "2", .run_at = now - 20s},
      {.type = "t", .payload = "3", .priority = 5, .run_at = now - 1s},
      {.type = "t", .payload = "4", .run_at = now - 20s},
      {.type = "t", .payload = "5", .priority = -5, .run_at = now - 60s},
      {.type = "t", .payload = "6", .priority = 100, .run_at = now + 1h},
  };
  queue.enqueue(tasks);
  auto first = queue.lease({.types = {"t"}, .limit = 2});
  EXPECT_EQ(payloads_of(first), (std::vector<std::string>{"3", "2"}));
  auto rest = queue.lease({.types = {"t"}, .limit = 10});
  EXPECT_EQ(payloads_of(rest), (std::vector<std::string>{"4", "1", "5"})) << "6 is not due";
  finish(queue, first);
  finish(queue, rest);
}

TEST_P(TaskQueueTest, NothingIsLeasedBeforeItsTime) {
  TaskQueue queue{uri()};
  const auto later = queue.enqueue({.type = "t", .delay = 1h});
  EXPECT_TRUE(queue.lease({.types = {"t"}}).empty());
  make_due();
  auto lease = lease_one(queue);
  EXPECT_EQ(lease.id(), later.id);
  lease.complete();
}

TEST_P(TaskQueueTest, EachTypeGetsItsShareAndWhatOthersDoNotUse) {
  TaskQueue queue{uri()};
  std::vector<NewTask> tasks(100, {.type = "many"});
  tasks.insert(tasks.end(), 2, {.type = "few"});
  tasks.insert(tasks.end(), 50, {.type = "some"});
  queue.enqueue(tasks);
  auto leases = queue.lease({.types = {"many", "few", "some", "none"}, .limit = 40});
  std::map<std::string, int> by_type;
  for (const auto& lease : leases) ++by_type[lease.type()];
  EXPECT_EQ(leases.size(), 40U);
  EXPECT_EQ(by_type["few"], 2);
  EXPECT_GE(by_type["many"], 10);
  EXPECT_GE(by_type["some"], 10);
  finish(queue, leases);
}

TEST_P(TaskQueueTest, ASmallLimitServesAllTypesInTurn) {
  TaskQueue queue{uri()};
  std::vector<NewTask> tasks(100, {.type = "noisy"});
  tasks.push_back({.type = "quiet"});
  queue.enqueue(tasks);
  std::set<std::string> seen;
  for (int i = 0; i < 4; ++i) {
    auto leases = queue.lease({.types = {"noisy", "quiet"}, .limit = 1});
    ASSERT_EQ(leases.size(), 1U);
    seen.insert(leases.front().type());
    finish(queue, leases);
  }
  EXPECT_TRUE(seen.contains("quiet"));
}

// A worker looks for its types with a limit and for the others by turns.
TEST_P(TaskQueueTest, TypesTakeTurnsWhateverElseIsLeasedBetween) {
  std::vector<NewTask> tasks(100, {.type = "noisy"});
  tasks.push_back({.type = "quiet"});
  for (const std::vector<std::string>& types :
       {std::vector<std::string>{"noisy", "quiet"}, {"quiet", "noisy"}}) {
    TaskQueue queue{uri()};
    queue.enqueue(tasks);
    std::set<std::string> seen;
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(queue.lease({.types = {"idle", "also idle"}}).empty());
      auto leases = queue.lease({.types = types, .limit = 1});
      ASSERT_EQ(leases.size(), 1U);
      seen.insert(leases.front().type());
      finish(queue, leases);
    }
    EXPECT_TRUE(seen.contains("quiet"));
    auto left = queue.lease({.types = types, .limit = 1'000});
    finish(queue, left);
  }
}

TEST_P(TaskQueueTest, WhatCameBackIsFoundAlsoAfterALeaseInWhichItsTypeHadNoTurn) {
  TaskQueue queue{uri()};
  queue.enqueue(std::vector<NewTask>(10, {.type = "a"}));
  queue.enqueue(std::vector<NewTask>(10, {.type = "b"}));
  auto leases = queue.lease({.types = {"b"}, .limit = 2});
  ASSERT_EQ(leases.size(), 2U);
  const TaskId first = leases.front().id();
  EXPECT_EQ(leases.front().release(), LeaseWrite::accepted);
  auto other = queue.lease({.types = {"a", "b"}, .limit = 1});
  ASSERT_EQ(other.size(), 1U);
  EXPECT_EQ(other.front().type(), "a");
  auto again = lease_one(queue, "b");
  EXPECT_EQ(again.id(), first);
  again.complete();
  other.front().complete();
  leases.back().complete();
}

// Cancelled and requeued while its worker did not look: the same process has two leases of it.
TEST_P(TaskQueueTest, OfTwoLeasesOfOneTaskTheOlderIsStale) {
  TaskQueue queue{uri()};
  const auto task = queue.enqueue({.type = "t"});
  const auto lease_twice = [&] {
    std::vector<TaskLease> leases;
    leases.push_back(lease_one(queue));
    EXPECT_EQ(queue.cancel(task.id), CancelOutcome::was_leased);
    EXPECT_EQ(queue.retry(task.id), RetryOutcome::requeued);
    leases.push_back(lease_one(queue));
    return leases;
  };
  auto leases = lease_twice();
  EXPECT_EQ(queue.extend(leases), std::vector{task.id});
  EXPECT_FALSE(leases[0].valid());
  EXPECT_TRUE(leases[1].valid());
  EXPECT_EQ(leases[1].release(), LeaseWrite::accepted);

  leases = lease_twice();
  EXPECT_EQ(queue.release(leases), std::vector{task.id});
  EXPECT_EQ(queue.get(task.id)->state, TaskState::pending);

  leases = lease_twice();
  std::swap(leases[0], leases[1]);
  const auto completed = queue.stats().completed;
  EXPECT_EQ(queue.complete(leases), std::vector{task.id});
  EXPECT_EQ(queue.get(task.id)->state, TaskState::completed);
  EXPECT_EQ(queue.stats().completed, completed + 1);
}

TEST_P(TaskQueueTest, ALeaseIsCompletedOnceInABatch) {
  TaskQueue queue{uri()};
  queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  const std::vector<Completion> twice(2, {&lease, "1"});
  EXPECT_THROW(queue.complete(twice), InvalidArgument);
  EXPECT_EQ(lease.complete("1"), LeaseWrite::accepted);
}

TEST_P(TaskQueueTest, AFailedTaskComesBackLaterAndThenDies) {
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

TEST_P(TaskQueueTest, BackoffGrowsIsCappedAndJittered) {
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

TEST_P(TaskQueueTest, NeverAgainIsDeadAtOnce) {
  TaskQueue queue{uri()};
  queue.enqueue({.type = "t"});
  EXPECT_EQ(lease_one(queue).fail("hopeless", Retry::never()), FailOutcome::dead);
}

TEST_P(TaskQueueTest, AReleasedTaskIsAsIfNeverLeased) {
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

TEST_P(TaskQueueTest, AnAbandonedHandleFailsItsTask) {
  TaskQueue queue{uri()};
  const auto task = queue.enqueue({.type = "t"});
  { const auto lease = lease_one(queue); }
  const auto record = queue.get(task.id);
  EXPECT_EQ(record->state, TaskState::pending);
  EXPECT_EQ(record->attempts, 1);
  EXPECT_NE(record->last_error.find("abandoned"), std::string::npos);
}

TEST_P(TaskQueueTest, BatchesNameTheStaleOnes) {
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

TEST_P(TaskQueueTest, ABatchThatIsDeletedNamesTheStaleOnesAndLeavesThemAlone) {
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

TEST_P(TaskQueueTest, ABatchThatIsDeletedTakesNothingFromBetweenItsTasks) {
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

TEST_P(TaskQueueTest, ABatchTakesNothingFromBetweenItsTasks) {
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
  finish(queue, leases);
}

TEST_P(TaskQueueTest, ReleasesMany) {
  TaskQueue queue{uri()};
  queue.enqueue(std::vector<NewTask>(5, {.type = "t"}));
  auto leases = queue.lease({.types = {"t"}, .limit = 5});
  EXPECT_TRUE(queue.release(leases).empty());
  auto again = queue.lease({.types = {"t"}, .limit = 5});
  EXPECT_EQ(again.size(), 5U);
  finish(queue, again);
}

TEST_P(TaskQueueTest, AnEndedLeaseCanNotBeEndedAgain) {
  TaskQueue queue{uri()};
  queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  EXPECT_EQ(lease.complete(), LeaseWrite::accepted);
  EXPECT_THROW(lease.complete(), InvalidArgument);
  EXPECT_THROW(lease.fail("no"), InvalidArgument);
  EXPECT_THROW(lease.release(), InvalidArgument);
  EXPECT_EQ(lease.extend(), LeaseWrite::stale);
}

TEST_P(TaskQueueTest, UpdateWantsTheVersionThatWasRead) {
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

TEST_P(TaskQueueTest, CancelSaysWhatItMet) {
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

TEST_P(TaskQueueTest, AUniqueKeyIsHeldByTheLivingOnly) {
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
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks"), "4");

  EXPECT_EQ(queue.cancel(third.id), CancelOutcome::was_pending);
  queue.enqueue(task);
  EXPECT_EQ(queue.retry(third.id), RetryOutcome::key_taken);
}

TEST_P(TaskQueueTest, EnqueuesManyInOrder) {
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

TEST_P(TaskQueueTest, ListsInPages) {
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

TEST_P(TaskQueueTest, CountsByTypeAndStateUpToALimit) {
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

TEST_P(TaskQueueTest, CompletedTasksAreKeptOrDeleted) {
  TaskQueue deleting{uri(), {.retention = Retention::delete_at_once()}};
  const auto gone = deleting.enqueue({.type = "t"});
  EXPECT_EQ(lease_one(deleting).complete("1"), LeaseWrite::accepted);
  EXPECT_FALSE(deleting.get(gone.id));

  TaskQueue keeping{uri(), {.retention = Retention::keep_for(1h)}};
  keeping.enqueue(std::vector<NewTask>(25, {.type = "t"}));
  keeping.enqueue(std::vector<NewTask>(5, {.type = "u"}));
  auto leases = keeping.lease({.types = {"t", "u"}, .limit = 30});
  ASSERT_EQ(leases.size(), 30U);
  finish(keeping, leases);
  EXPECT_EQ(keeping.remove_finished(), 0U);
  sql("UPDATE leasehold.tasks SET finished_at = " + seconds_ago(7'200) + " WHERE id % 2 = 0");
  const auto old = std::stoul(sql("SELECT count(*) FROM leasehold.tasks WHERE id % 2 = 0"));
  EXPECT_EQ(keeping.remove_finished({.completed = 1h, .chunk = 4}), old);
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks"), std::to_string(30 - old));

  TaskQueue hoarding{uri(), {.retention = Retention::keep_forever()}};
  EXPECT_EQ(hoarding.remove_finished(), 0U);
}

TEST(TaskArgumentsTest, BadInputIsRefusedBeforeAnythingIsSent) {
  // No server is there: what is refused has not been sent.
  TaskQueue queue{"postgresql://127.0.0.1:1/none"};
  const auto refused = [](const auto& call, const std::string& words) {
    try {
      call();
      ADD_FAILURE() << "accepted, expected: " << words;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  const auto enqueue = [&](const NewTask& task, const std::string& words) {
    refused([&] { queue.enqueue(task); }, words);
  };
  enqueue({.type = ""}, "1 to 128 bytes, got 0");
  enqueue({.type = std::string(129, 'x')}, "1 to 128 bytes, got 129");
  enqueue({.type = "a\nb"}, "control characters");
  enqueue({.type = "\xff"}, "not UTF-8");
  enqueue({.type = "t", .payload = "{"}, "\"{\" is not JSON");
  enqueue({.type = "t", .payload = ""}, "is not JSON");
  enqueue({.type = "t", .payload = std::string("1\0", 2)}, "is not JSON");
  enqueue({.type = "t", .payload = std::string("1\0garbage", 9)}, "is not JSON");
  enqueue({.type = "t", .payload = "\xef\xbb\xbf{}"}, "is not JSON");
  enqueue({.type = "t", .payload = std::string(1'048'576, ' ') + "1"}, "at most 1048576 bytes, got 1048577");
  enqueue({.type = "t", .payload = std::string(501, '[') + std::string(501, ']')}, "got 501");
  enqueue({.type = "t", .priority = 1'000'001}, "1000001");
  enqueue({.type = "t", .delay = -1ms}, "-1 ms");
  enqueue({.type = "t", .max_attempts = 0}, "max_attempts must be 1 to 1000000, got 0");
  enqueue({.type = "t", .unique_key = std::string(513, 'k')}, "513");
  refused([&] { queue.lease({}); }, "number of types must be 1 to 1000, got 0");
  refused([&] { queue.lease({.types = {"a", "a"}}); }, "given twice");
  refused([&] { queue.lease({.types = {"a"}, .limit = 0}); }, "limit must be 1 to 10000, got 0");
  refused([&] { queue.lease({.types = {"a"}, .duration = 0ms}); }, "0 ms");
  refused([&] { queue.lease({.types = {"a"}, .duration = -5s}); }, "lease duration must be 100 ms to 24 h, got -5 s");
  refused([&] { queue.list({.limit = 0}); }, "limit must be 1 to 10000, got 0");
  refused([&] { TaskQueue{"mysql://x"}; }, "\"mysql\"");
  refused([&] { TaskQueue{"mysql://x"}; }, "sqlite:path");
  refused([&] { TaskQueue{""}; }, "must begin with postgresql://");
  refused([&] { TaskQueue{"sqlite:"}; }, "the path is missing");
  refused([&] { TaskQueue{"sqlite::memory:a b"}; }, "letters, digits");
  refused([&] { (TaskQueue{"sqlite::memory:", {.sqlite = {.timeout = 0ms}}}); }, "0 ms");
  refused([&] { TaskQueue{"postgresql://h/x?no_such_option=1"}; }, "malformed");
  refused([&] { (TaskQueue{"postgresql://h/x", {.postgres = {.schema = "a\"b"}}}); }, "schema");
  refused(
      [&] {
        (TaskQueue{"postgresql://h/x", {.postgres = {.connections = 0}}});
      },
      "connections must be 1 to 1000, got 0");
  refused([&] { (TaskQueue{"postgresql://h/x", {.backoff = {.first = 0ms}}}); }, "backoff.first");
  refused([&] { (Recovery{queue, {.max_crashes = 0}}); }, "max_crashes must be 1 to 1000000, got 0");
  refused([&] { migrate("postgresql://h/x", {.schema = ""}); }, "schema");
  EXPECT_THROW(queue.enqueue({.type = "t"}), Unavailable) << "and what is right is sent";
}

TEST(TaskArgumentsTest, AMalformedUriDoesNotShowItsPassword) {
  try {
    TaskQueue{"postgresql://user:secret@host/x?no_such_option=1"};
    FAIL() << "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos) << error.what();
  }
}

TEST_P(TaskQueueTest, AnErrorTextOfAnyKindIsKept) {
  TaskQueue queue{uri()};
  const auto task = queue.enqueue({.type = "t"});
  lease_one(queue).fail(std::string("bad \xff\0 byte", 11) + std::string(10'000, 'x'));
  const auto kept = queue.get(task.id)->last_error;
  EXPECT_TRUE(kept.starts_with("bad ?? byte"));
  EXPECT_EQ(kept.size(), 4096U);
}

TEST_P(TaskQueueTest, StatsCountWhatHappened) {
  TaskQueue queue{uri()};
  queue.enqueue(std::vector<NewTask>(3, {.type = "t"}));
  lease_one(queue).complete();
  lease_one(queue).fail("no", Retry::never());
  lease_one(queue).release();
  EXPECT_TRUE(queue.lease({.types = {"none"}}).empty());
  const TaskStats stats = queue.stats();
  EXPECT_EQ(stats.enqueued, 3U);
  EXPECT_EQ(stats.leased, 3U);
  EXPECT_EQ(stats.empty_leases, 1U);
  EXPECT_EQ(stats.completed, 1U);
  EXPECT_EQ(stats.failed, 1U);
  EXPECT_EQ(stats.dead, 1U);
  EXPECT_EQ(stats.released, 1U);
  EXPECT_EQ(stats.lease_time.count, 4U);
}

}  // namespace
}  // namespace leasehold
