// A lease has a number of its own. After a failover that has lost commits, the same version of a
// task can be leased once more, to somebody else. The first holder is refused all the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tasks/lease_writes.hpp"
#include "tasks/queue_core.hpp"
#include "tests/support/task_store.hpp"

namespace leasehold::testing {
namespace {

class TaskIdentityTest : public OnEveryTaskStore {
 protected:
  /// As a failover does that loses a lease, if another worker then leases the same version.
  static void lease_to_another(const std::string& condition = "true") {
    sql("UPDATE leasehold.tasks SET lease_id = 5, leased_by = 'another' WHERE " + condition);
  }
  static std::string rows() { return sql("SELECT * FROM leasehold.tasks ORDER BY id"); }
  static TaskStore& store(TaskQueue& queue) { return *QueueCore::of(queue)->store; }
  static LeaseKey key(TaskLease& lease) { return QueueCore::state(lease).task.key; }
};
ON_EVERY_STORE(TaskIdentityTest);

/// One task, which another worker holds with the same version.
class TakenTaskTest : public TaskIdentityTest {
 protected:
  void SetUp() override {
    id = queue.enqueue({.type = "t"}).id;
    lease.emplace(lease_one(queue));
    lease_to_another();
    before = rows();
  }
  void TearDown() override { EXPECT_EQ(rows(), before) << "a stale holder changed the task"; }

  TaskQueue queue{uri(), {.recovery = std::nullopt}};
  TaskId id;
  std::optional<TaskLease> lease;
  std::string before;
};
ON_EVERY_STORE(TakenTaskTest);

TEST_P(TakenTaskTest, CannotBeRenewed) { EXPECT_EQ(lease->extend(), LeaseWrite::stale); }
TEST_P(TakenTaskTest, GetsNoProgress) { EXPECT_EQ(lease->progress("1"), LeaseWrite::stale); }
TEST_P(TakenTaskTest, CannotBeCompleted) { EXPECT_EQ(lease->complete("1"), LeaseWrite::stale); }
TEST_P(TakenTaskTest, CannotFail) { EXPECT_EQ(lease->fail("no"), FailOutcome::stale); }
TEST_P(TakenTaskTest, CannotDie) {
  EXPECT_EQ(lease->fail("no", Retry::never()), FailOutcome::stale);
}
TEST_P(TakenTaskTest, CannotBeReleased) { EXPECT_EQ(lease->release(), LeaseWrite::stale); }
TEST_P(TakenTaskTest, CannotBeAbandoned) { lease.reset(); }
TEST_P(TakenTaskTest, CannotBeRenewedInABatch) {
  EXPECT_EQ(queue.extend({&*lease, 1}), std::vector{id});
}
TEST_P(TakenTaskTest, CannotBeReleasedInABatch) {
  EXPECT_EQ(queue.release({&*lease, 1}), std::vector{id});
}
TEST_P(TakenTaskTest, CannotBeGivenBackUnstarted) {
  const LeaseKey stale = key(*lease);
  EXPECT_TRUE(store(queue).release({&stale, 1}, 0ms, GivenBack::unstarted).empty());
  lease->abandon();
}
TEST_P(TakenTaskTest, CannotBeCompletedInATransaction) {
  const auto complete = [&](const OwnTransaction& transaction) { transaction.complete_in(*lease); };
  EXPECT_THROW(in_transaction(queue, complete), LeaseLost);
}

/// Two leases of one task in one call, as a process has them that held the task before a failover
/// and leased it again after it. The lost one may have the same version or a higher one.
class TwoLeasesTest : public TaskIdentityTest {
 protected:
  using Results = std::vector<WriteResult>;
  using Leases = std::span<HeldLease* const>;

  /// `write` gets the lost lease first, or last, and returns what it was told about both.
  static void expect_only_the_second_holds(
      const std::function<Results(LeaseWrites&, Leases)>& write) {
    for (const int higher : {0, 1}) {
      for (const bool lost_first : {true, false}) {
        TaskQueue queue{uri(), {.recovery = std::nullopt}};
        queue.enqueue({.type = "t"});
        TaskLease lease = lease_one(queue);
        const LeasedTask task = QueueCore::state(lease).task;
        sql("UPDATE leasehold.tasks SET lease_id = 5, version = version - " +
            std::to_string(higher) + " WHERE state = 'leased'");
        LeasedTask again = task;
        again.key.version.value -= higher;
        again.key.lease = LeaseId{5};
        const auto later = BootClock::now() + 1h;
        HeldLease lost(task, LeaseStage::held, later);
        HeldLease held(again, LeaseStage::held, later);
        HeldLease* both[] = {&lost, &held};
        if (!lost_first) std::reverse(std::begin(both), std::end(both));
        QueueCore& core = *QueueCore::of(queue);
        LeaseWrites writes(*core.store, core.telemetry, *core.logger, LostReply::repeat);
        Results results = write(writes, both);
        if (!lost_first) std::reverse(results.begin(), results.end());
        EXPECT_EQ(results, (Results{WriteResult::stale, WriteResult::accepted}))
            << "higher by " << higher << ", lost first: " << lost_first;
        lease.abandon();
        sql("DELETE FROM leasehold.tasks");
      }
    }
  }
};
ON_EVERY_STORE(TwoLeasesTest);

TEST_P(TwoLeasesTest, OneIsRenewed) {
  expect_only_the_second_holds(
      [](LeaseWrites& writes, Leases both) { return writes.extend(both, 1h).each; });
}
TEST_P(TwoLeasesTest, OneIsCompleted) {
  for (const Keep keep : {Keep::yes, Keep::no}) {
    expect_only_the_second_holds([keep](LeaseWrites& writes, Leases both) {
      const FinishedLease finished[] = {{both[0], {}}, {both[1], {}}};
      return writes.complete(finished, keep).each;
    });
  }
}
TEST_P(TwoLeasesTest, OneIsReleased) {
  expect_only_the_second_holds([](LeaseWrites& writes, Leases both) {
    return writes.release(both, std::nullopt, GivenBack::in_order).each;
  });
}
TEST_P(TwoLeasesTest, OneFails) {
  for (const auto delay : {std::optional<std::chrono::milliseconds>{}, std::optional{1'000ms}}) {
    expect_only_the_second_holds([delay](LeaseWrites& writes, Leases both) {
      const FailedLease failed[] = {{both[0], "no", delay}, {both[1], "no", delay}};
      return writes.fail(failed).each;
    });
  }
}

// In batches that stores delete in different ways: one, a few, many that follow each other, and
// many with gaps.
TEST_P(TaskIdentityTest, ABatchThatIsDeletedLeavesTheTasksOfAnotherAlone) {
  TaskQueue queue{uri(), {.retention = Retention::delete_at_once(), .recovery = std::nullopt}};
  for (const std::size_t batch : {1U, 3U, 20U}) {
    for (const bool gaps : {false, true}) {
      queue.enqueue(std::vector<NewTask>(2 * batch, {.type = "t"}));
      auto leases = queue.lease({.types = {"t"}, .limit = 2 * batch});
      ASSERT_EQ(leases.size(), 2 * batch);
      std::vector<TaskLease> own;
      std::vector<TaskLease> rest;
      for (std::size_t i = 0; i < 2 * batch; ++i) {
        const bool is_own = gaps ? i % 2 == 1 : i >= batch;
        (is_own ? own : rest).push_back(std::move(leases[i]));
      }
      const TaskId taken = own.back().id();
      lease_to_another("id = " + std::to_string(taken.value));
      EXPECT_EQ(queue.complete(own), std::vector{taken});
      EXPECT_EQ(count("true"), int(batch) + 1);
      EXPECT_EQ(queue.get(taken)->leased_by, "another");
      for (auto& lease : rest) lease.abandon();
      sql("DELETE FROM leasehold.tasks");
    }
  }
}

TEST_P(TaskIdentityTest, ABatchOfSeveralLeasesIsDeleted) {
  TaskQueue queue{uri(), {.retention = Retention::delete_at_once()}};
  queue.enqueue(std::vector<NewTask>(30, {.type = "t"}));
  std::vector<TaskLease> all;
  for (int i = 0; i < 3; ++i) {
    for (auto& lease : queue.lease({.types = {"t"}, .limit = 10})) all.push_back(std::move(lease));
  }
  ASSERT_EQ(all.size(), 30U);
  EXPECT_TRUE(queue.complete(all).empty());
  EXPECT_EQ(count("true"), 0);
}

TEST_P(TaskIdentityTest, EachCallHasANumberOfItsOwn) {
  TaskQueue queue{uri()};
  queue.enqueue(std::vector<NewTask>(3, {.type = "t"}));
  auto two = queue.lease({.types = {"t"}, .limit = 2});
  ASSERT_EQ(two.size(), 2U);
  auto third = lease_one(queue);
  EXPECT_GT(key(third).lease.value, 0);
  EXPECT_EQ(key(two[0]).lease, key(two[1]).lease);
  EXPECT_NE(key(two[0]).lease, key(third).lease);
}

// A holder who has lost the reply looks up whose lease it was that ended last.
TEST_P(TaskIdentityTest, TheNumberStaysAfterTheLeaseHasEnded) {
  TaskQueue queue{uri(), {.recovery = std::nullopt}};
  const TaskId id = queue.enqueue({.type = "t"}).id;
  const auto stored = [&] { return store(queue).get(id).value_or(StoredTask{}).lease; };
  EXPECT_EQ(stored(), LeaseId{0});

  auto released = lease_one(queue);
  EXPECT_EQ(stored(), key(released).lease);
  EXPECT_EQ(released.release(), LeaseWrite::accepted);
  EXPECT_EQ(stored(), key(released).lease);

  auto failed = lease_one(queue);
  EXPECT_EQ(failed.fail("no", Retry::after(0ms)), FailOutcome::retried);
  EXPECT_EQ(stored(), key(failed).lease);

  auto expired = lease_one(queue);
  expire(id);
  EXPECT_EQ(Recovery{queue}.run_once().requeued, 1U);
  EXPECT_EQ(stored(), key(expired).lease);
  expired.abandon();

  auto completed = lease_one(queue);
  EXPECT_EQ(completed.complete(), LeaseWrite::accepted);
  EXPECT_EQ(stored(), key(completed).lease);
}

}  // namespace
}  // namespace leasehold::testing
