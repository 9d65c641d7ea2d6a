// Ids with a stride: several databases that share one number space, as migration 1 describes it.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/support/postgres_tasks.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

constexpr std::int64_t databases = 10;
constexpr std::int64_t ours = 3;

class TaskIdsTest : public PostgresTaskTest {
 protected:
  void SetUp() override {
    PostgresTaskTest::SetUp();
    sql("ALTER TABLE leasehold.tasks ALTER id SET INCREMENT BY " + std::to_string(databases) +
        ", ALTER id RESTART WITH " + std::to_string(ours));
  }
  /// Each is the next one of ours.
  void expect_next(const std::vector<Enqueued>& answers) {
    for (const Enqueued& answer : answers) {
      EXPECT_EQ(answer.id.value, next);
      next = answer.id.value + databases;
    }
  }

  std::int64_t next = ours;
};

TEST_F(TaskIdsTest, AStrideIsKeptByEverythingThatAddsTasks) {
  TaskQueue queue{uri()};
  expect_next({queue.enqueue({.type = "t"})});
  expect_next(queue.enqueue(std::vector<NewTask>(1'000, {.type = "t"})));
  std::vector<NewTask> keyed;
  for (int i = 0; i < 100; ++i) {
    keyed.push_back(
        {.type = "t", .unique_key = i % 2 == 0 ? "key " + std::to_string(100 - i) : ""});
  }
  expect_next(queue.enqueue(keyed));
  // Tasks that exist have used up ids for nothing; those that are new still have ours, in order.
  std::int64_t last = next;
  for (const Enqueued& answer : queue.enqueue(keyed)) {
    EXPECT_EQ(answer.id.value % databases, ours);
    if (answer.outcome == Enqueued::Outcome::added) {
      EXPECT_GT(answer.id.value, last - databases);
      last = answer.id.value;
    }
  }
  pqxx::connection connection{uri()};
  pqxx::work transaction{connection};
  EXPECT_EQ(enqueue_in(transaction, queue, NewTask{.type = "t"}).id.value % databases, ours);
  transaction.commit();
}

TEST_F(TaskIdsTest, ATaskKeepsItsIdWhateverBecomesOfIt) {
  TaskQueue queue{uri()};
  queue.enqueue(std::vector<NewTask>(60, {.type = "t"}));
  std::set<std::int64_t> ids;
  auto leases = queue.lease({.types = {"t"}, .limit = 60});
  ASSERT_EQ(leases.size(), 60U);
  for (std::size_t i = 0; i < leases.size(); ++i) {
    EXPECT_EQ(leases[i].id().value, ours + databases * std::int64_t(i));
    ids.insert(leases[i].id().value);
  }
  EXPECT_TRUE(queue.extend(leases).empty());
  for (auto& lease : leases) EXPECT_EQ(lease.fail("no", Retry::never()), FailOutcome::dead);
  for (const std::int64_t id : ids) EXPECT_EQ(queue.retry({id}), RetryOutcome::requeued);
  auto again = queue.lease({.types = {"t"}, .limit = 100});
  EXPECT_EQ(again.size(), ids.size());
  for (const auto& lease : again) EXPECT_TRUE(ids.contains(lease.id().value));
  EXPECT_TRUE(queue.complete(again).empty());
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.finished_tasks WHERE id % " +
                std::to_string(databases) + " <> " + std::to_string(ours)),
            "0");
}

}  // namespace
}  // namespace leasehold::testing
