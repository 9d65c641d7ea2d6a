// How many bytes one call of lease() returns.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "tests/support/eventually.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/task_store.hpp"

namespace leasehold::testing {
namespace {

/// A store may count some bytes more for each payload, so the limits leave room for them.
class TaskBytesTest : public OnEveryTaskStore {
 protected:
  static std::string json_of(std::size_t bytes) { return '"' + std::string(bytes - 2, 'x') + '"'; }
  std::vector<TaskId> add(std::size_t number, const std::string& type, std::size_t bytes) {
    std::vector<TaskId> ids;
    const std::vector<NewTask> tasks(number, {.type = type, .payload = json_of(bytes)});
    for (const auto& added : queue.enqueue(tasks)) ids.push_back(added.id);
    return ids;
  }
  std::vector<TaskLease> lease(std::size_t max_bytes, std::vector<std::string> types = {"t"}) {
    return queue.lease({.types = std::move(types), .limit = 100, .max_bytes = max_bytes});
  }

  TaskQueue queue{uri()};
};
ON_EVERY_STORE(TaskBytesTest);

TEST_P(TaskBytesTest, ALeaseReturnsAsManyTasksAsFit) {
  const auto ids = add(10, "t", 1'000);
  auto first = lease(3'100);
  ASSERT_EQ(first.size(), 3U);
  auto second = lease(2'999);
  ASSERT_EQ(second.size(), 2U);
  auto rest = lease(1'000'000);
  ASSERT_EQ(rest.size(), 5U);
  EXPECT_EQ(first[0].id(), ids[0]);
  EXPECT_EQ(second[0].id(), ids[3]) << "what did not fit comes next";
  EXPECT_EQ(rest[0].id(), ids[5]);
  for (auto* leases : {&first, &second, &rest}) {
    for (const auto& one : *leases) EXPECT_EQ(one.payload(), json_of(1'000));
    EXPECT_TRUE(queue.complete(*leases).empty());
  }
}

TEST_P(TaskBytesTest, OneTaskIsLeasedHoweverLargeItIs) {
  add(2, "t", 10'000);
  for (int i = 0; i < 2; ++i) {
    auto leases = lease(1);
    ASSERT_EQ(leases.size(), 1U);
    leases.front().complete();
  }
  EXPECT_TRUE(lease(1).empty());
}

TEST_P(TaskBytesTest, ProgressCounts) {
  add(2, "t", 1'000);
  auto both = lease(1'000'000);
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].progress(json_of(5'000)), LeaseWrite::accepted);
  EXPECT_TRUE(queue.release(both).empty());
  auto leases = lease(6'100);
  ASSERT_EQ(leases.size(), 1U);
  EXPECT_EQ(leases[0].last_progress(), json_of(5'000));
  EXPECT_EQ(leases[0].release(), LeaseWrite::accepted);
  leases = lease(7'100);
  ASSERT_EQ(leases.size(), 2U);
  queue.complete(leases);
}

TEST_P(TaskBytesTest, AllTypesTogetherHaveOneLimit) {
  add(10, "a", 1'000);
  add(10, "b", 1'000);
  std::size_t of_a = 0;
  for (int i = 0; i < 5; ++i) {
    auto leases = lease(4'500, {"a", "b"});
    ASSERT_EQ(leases.size(), 4U);
    for (const auto& one : leases) of_a += one.type() == "a" ? 1 : 0;
    queue.complete(leases);
  }
  EXPECT_EQ(of_a, 10U) << "all were leased";
}

// Dead tasks are moved with all they have. One statement must not move more than it can.
TEST_P(TaskBytesTest, LargeTasksOfACrashedWorkerAreTakenBackInParts) {
  constexpr std::size_t number = 40;
  TaskQueue crowd{uri(), {.recovery = std::nullopt}};
  crowd.enqueue(std::vector<NewTask>(
      number,
      {.type = "t", .payload = '"' + std::string(1'000'000, 'x') + '"', .max_attempts = 1}));
  auto leases = crowd.lease(
      {.types = {"t"}, .limit = number, .duration = 100ms, .max_bytes = std::size_t{1} << 30});
  ASSERT_EQ(leases.size(), number);
  for (auto& lease : leases) lease.abandon();
  std::vector<std::size_t> batches;
  EXPECT_TRUE(eventually([&] {
    Recovery{crowd}.recover_in_batches(
        [&](const RecoveryReport& batch) { batches.push_back(batch.dead); });
    return std::accumulate(batches.begin(), batches.end(), std::size_t{0}) == number;
  }));
  if (in_postgres()) {
    EXPECT_GT(batches.size(), 1U);
  }
}

TEST_P(TaskBytesTest, LimitsThatAreWrongAreRefused) {
  EXPECT_NE(message_of<InvalidArgument>([&] { lease(0); }).find("max_bytes"), std::string::npos);
  EXPECT_THROW(lease(std::size_t{1024} * 1024 * 1024 + 1), InvalidArgument);
}

}  // namespace
}  // namespace leasehold::testing
