// The life of a task in one program, and what the statistics count.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/task_store.hpp"

namespace leasehold::testing {
namespace {

using Outcome = Enqueued::Outcome;

class TaskQueueTest : public OnEveryTaskStore {};
ON_EVERY_STORE(TaskQueueTest);

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
  EXPECT_TRUE(record->leased_at);

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
}  // namespace leasehold::testing
