// Which tasks a lease returns: by priority and time, and by turns of their types.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/task_store.hpp"

namespace leasehold::testing {
namespace {

class TaskLeaseTest : public OnEveryTaskStore {};
ON_EVERY_STORE(TaskLeaseTest);

std::vector<std::string> payloads_of(const std::vector<TaskLease>& leases) {
  std::vector<std::string> payloads;
  for (const TaskLease& lease : leases) payloads.push_back(lease.payload());
  return payloads;
}

void finish(TaskQueue& queue, std::vector<TaskLease>& leases) {
  EXPECT_TRUE(queue.complete(leases).empty());
}

TEST_P(TaskLeaseTest, LeasesByPriorityThenRunAtThenId) {
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

// One, several whose ids follow each other, and several whose ids do not: stores may lease them in
// different ways.
TEST_P(TaskLeaseTest, EveryLeasedTaskSaysSinceWhen) {
  TaskQueue queue{uri()};
  queue.enqueue(std::vector<NewTask>(11, {.type = "t"}));
  for (int i = 0; i < 10; ++i) {
    queue.enqueue({.type = "u"});
    queue.enqueue({.type = "between"});
  }
  std::vector<TaskLease> all;
  for (const auto& [type, limit] : {std::pair{"t", 1U}, std::pair{"t", 10U}, std::pair{"u", 10U}}) {
    auto leases = queue.lease({.types = {type}, .limit = limit});
    EXPECT_EQ(leases.size(), limit);
    for (TaskLease& lease : leases) {
      const auto record = queue.get(lease.id());
      ASSERT_TRUE(record);
      EXPECT_TRUE(record->leased_at) << "task " << lease.id() << " of " << limit;
      EXPECT_EQ(record->leased_at, record->updated_at);
      all.push_back(std::move(lease));
    }
  }
  finish(queue, all);
}

TEST_P(TaskLeaseTest, NothingIsLeasedBeforeItsTime) {
  TaskQueue queue{uri()};
  const auto later = queue.enqueue({.type = "t", .delay = 1h});
  EXPECT_TRUE(queue.lease({.types = {"t"}}).empty());
  make_due();
  auto lease = lease_one(queue);
  EXPECT_EQ(lease.id(), later.id);
  lease.complete();
}

TEST_P(TaskLeaseTest, EachTypeGetsItsShareAndWhatOthersDoNotUse) {
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

TEST_P(TaskLeaseTest, ASmallLimitServesAllTypesInTurn) {
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
TEST_P(TaskLeaseTest, TypesTakeTurnsWhateverElseIsLeasedBetween) {
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

TEST_P(TaskLeaseTest, WhatCameBackIsFoundAlsoAfterALeaseInWhichItsTypeHadNoTurn) {
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
TEST_P(TaskLeaseTest, OfTwoLeasesOfOneTaskTheOlderIsStale) {
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

}  // namespace
}  // namespace leasehold::testing
