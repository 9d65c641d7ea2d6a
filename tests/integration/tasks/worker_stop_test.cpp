// How handlers are told to stop, and how a worker stops.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/support/eventually.hpp"
#include "tests/support/own_transaction.hpp"
#include "tests/support/postgres_tasks.hpp"
#include "tests/support/running_worker.hpp"
#include "tests/support/signal.hpp"
#include "tests/support/task_store.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::steady_clock;

class WorkerStopTest : public OnEveryTaskStore {
 protected:
  static std::string rows(const std::string& what) {
    return sql("SELECT " + what + " FROM " + every_task() + " ORDER BY id");
  }
  TaskId enqueue(NewTask task = {.type = "t"}) { return queue.enqueue(task).id; }

  // The tests themselves take back what has expired.
  TaskQueue queue{uri(), {.recovery = std::nullopt}};
};
ON_EVERY_STORE(WorkerStopTest);

TEST_P(WorkerStopTest, CancelReachesARunningHandlerAndItsWritesAreRefused) {
  Worker worker{queue, {.lease = 6s}};  // so long that it is not lost when we are not scheduled
  Signal started;
  Signal ended;
  worker.on("t", [&](Task& task) {
    started.set();
    EXPECT_TRUE(wait_for_stop(task.stop_token()));
    EXPECT_EQ(task.stop_reason(), StopReason::cancelled);
    EXPECT_EQ(task.progress("1"), LeaseWrite::stale);
    ended.set();
  });
  const auto id = enqueue();
  const RunningWorker running{worker};
  ASSERT_TRUE(started.wait());
  EXPECT_EQ(queue.cancel(id), CancelOutcome::was_leased);
  ASSERT_TRUE(ended.wait());
  EXPECT_TRUE(eventually([&] { return worker.stats().stale_writes == 2; }))
      << "its progress and its completion";
  EXPECT_EQ(rows("state, " + is_null("progress")), "cancelled|t");
  EXPECT_EQ(worker.stats().lost, 1U);
  EXPECT_EQ(worker.stats().completed, 0U);
}

TEST_P(WorkerStopTest, ProgressTellsOfACancelAtOnce) {
  Worker worker{queue};  // its next renewal is 10 s away
  Signal started;
  Signal cancelled;
  Signal ended;
  worker.on("t", [&](Task& task) {
    started.set();
    EXPECT_TRUE(cancelled.wait());
    EXPECT_EQ(task.progress("1"), LeaseWrite::stale);
    EXPECT_TRUE(task.stop_token().stop_requested());
    EXPECT_EQ(task.stop_reason(), StopReason::cancelled);
    ended.set();
  });
  const auto id = enqueue();
  const RunningWorker running{worker};
  ASSERT_TRUE(started.wait());
  queue.cancel(id);
  cancelled.set();
  EXPECT_TRUE(ended.wait());
}

TEST_P(WorkerStopTest, ALostLeaseStopsTheHandlerAndItsTransactionIsRolledBack) {
  sql("DROP TABLE IF EXISTS ledger; CREATE TABLE ledger (task bigint)");
  Worker worker{queue, {.lease = 5s}};
  Signal started;
  Signal ended;
  worker.on("t", [&](Task& task) {
    if (task.attempt() > 1) return;
    started.set();
    EXPECT_TRUE(wait_for_stop(task.stop_token()));
    EXPECT_EQ(task.stop_reason(), StopReason::lease_lost);
    const auto work = [&](const OwnTransaction& transaction) {
      transaction.execute("INSERT INTO ledger VALUES (1)");
      transaction.complete_in(task);
    };
    EXPECT_THROW(in_transaction(queue, work), LeaseLost);
    ended.set();
  });
  const auto id = enqueue();
  const RunningWorker running{worker};
  ASSERT_TRUE(started.wait());
  // Recovered while it runs. Again if a renewal came between the two.
  ASSERT_TRUE(eventually([&] {
    expire(id);
    return Recovery{queue}.run_once().tasks.size() == 1;
  }));
  ASSERT_TRUE(ended.wait());
  ASSERT_TRUE(eventually([&] { return rows("state, attempts") == "completed|2"; }, 60s));
  EXPECT_EQ(sql("SELECT count(*) FROM ledger"), "0");
}

TEST_P(WorkerStopTest, AStaleTransactionIsRefusedByTheStoreToo) {
  // The handler is not told yet, and complete_in finds out.
  Worker worker{queue};  // its next renewal is 10 s away
  Signal started;
  Signal recovered;
  std::atomic<bool> refused{false};
  worker.on("t", [&](Task& task) {
    if (task.attempt() > 1) return;
    started.set();
    EXPECT_TRUE(recovered.wait());
    try {
      in_transaction(queue,
                     [&](const OwnTransaction& transaction) { transaction.complete_in(task); });
    } catch (const LeaseLost&) {
      refused = true;
      EXPECT_TRUE(task.stop_token().stop_requested());
      throw;
    }
  });
  const auto id = enqueue();
  const RunningWorker running{worker};
  ASSERT_TRUE(started.wait());
  expire(id);
  ASSERT_EQ(Recovery{queue}.run_once().tasks.size(), 1U);
  recovered.set();
  ASSERT_TRUE(eventually([&] { return rows("state, attempts") == "completed|2"; }, 60s));
  EXPECT_TRUE(eventually([&] { return refused.load(); }, 60s));
  EXPECT_TRUE(eventually([&] { return worker.stats().stale_writes >= 1; }, 60s));
}

TEST_P(WorkerStopTest, AHandlerThatBlocksItsThreadKeepsItsLease) {
  Worker worker{queue, {.concurrency = 1, .lease = 6s}};
  std::atomic<int> runs{0};
  Signal go;
  worker.on("t", [&](Task& task) {
    ++runs;
    EXPECT_TRUE(go.wait());  // longer than a lease, and nothing else
    EXPECT_FALSE(task.stop_token().stop_requested());
  });
  const auto id = enqueue();
  const RunningWorker running{worker};
  Recovery recovery{queue};
  EXPECT_TRUE(eventually(
      [&] {
        EXPECT_TRUE(recovery.run_once().tasks.empty());
        if (worker.stats().renewals >= 4) go.set();
        return queue.get(id)->state == TaskState::completed;
      },
      60s));
  EXPECT_EQ(runs, 1);
  EXPECT_GE(worker.stats().renewals, 4U);
}

TEST_P(WorkerStopTest, ADeadlineFailsTheTaskAndNothingLaterCounts) {
  Worker worker{queue, {.concurrency = 2}};
  Signal go;
  std::atomic<bool> told{false};
  worker.on("t",
            [&](Task& task) {
              if (task.attempt() > 1) return;
              told = wait_for_stop(task.stop_token());
              EXPECT_EQ(task.stop_reason(), StopReason::deadline);
              EXPECT_TRUE(go.wait());
              EXPECT_EQ(task.progress("1"), LeaseWrite::stale);
            },
            {.deadline = 200ms, .retry = Retry::after(0ms)});
  enqueue();
  const RunningWorker running{worker};
  // It is done again while the first handler does not heed its token.
  ASSERT_TRUE(eventually([&] { return rows("state, attempts") == "completed|2"; }, 60s));
  EXPECT_EQ(rows("last_error"), "the handler's deadline of 200 ms has passed");
  EXPECT_TRUE(told);
  go.set();
  EXPECT_TRUE(eventually([&] { return worker.stats().running == 0; }));
  EXPECT_EQ(rows("state, attempts, " + is_null("progress")), "completed|2|t");
  EXPECT_TRUE(eventually([&] { return worker.stats().completed == 1; })) << "counted after the row";
  EXPECT_EQ(worker.stats().failed, 1U);
}

TEST_P(WorkerStopTest, AGracefulStopLetsHandlersFinishAndGivesTheRestBackAtOnce) {
  Worker worker{queue, {.concurrency = 1, .stop_grace = 60s}};
  Signal blocked;
  Signal go;
  worker.on("t", [&](Task& task) {
    if (task.payload() != "1") return;
    blocked.set();
    EXPECT_TRUE(go.wait());
    EXPECT_TRUE(task.shutting_down());
    EXPECT_FALSE(task.stop_token().stop_requested());
  });
  // Quick ones, so that the worker leases ahead; then one that blocks the only thread.
  std::vector<NewTask> tasks(300, {.type = "t", .payload = "0"});
  tasks[100].payload = "1";
  queue.enqueue(tasks);
  RunningWorker running{worker};
  ASSERT_TRUE(blocked.wait());
  running.stop();
  // All but the running one are free, while that one still runs.
  ASSERT_TRUE(eventually(
      [&] { return sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'leased'") == "1"; },
      60s));
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'pending' AND attempts <> 0"),
            "0");
  EXPECT_FALSE(running.has_ended());
  go.set();
  ASSERT_TRUE(running.ended());
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'leased'"), "0");
  EXPECT_EQ(sql("SELECT state FROM " + every_task() + " WHERE CAST(payload AS text) = '1'"),
            "completed");
}

TEST_P(WorkerStopTest, AfterTheGraceWhatStillRunsIsGivenBackAndTold) {
  Worker worker{queue, {.concurrency = 1, .stop_grace = 300ms}};
  Signal started;
  worker.on("t", [&](Task& task) {
    started.set();
    EXPECT_TRUE(wait_for_stop(task.stop_token()));
    EXPECT_EQ(task.stop_reason(), StopReason::shutdown);
    throw std::runtime_error("nobody hears this");
  });
  enqueue();
  RunningWorker running{worker};
  ASSERT_TRUE(started.wait());
  const auto released = worker.stats().released;  // if it could not be started within a second
  const auto asked = steady_clock::now();
  running.stop();
  ASSERT_TRUE(running.ended());
  EXPECT_GE(steady_clock::now() - asked, 300ms);
  EXPECT_LT(steady_clock::now() - asked, 300ms + 5s) << "the ceiling";
  EXPECT_EQ(rows("state, attempts, " + is_null("last_error")), "pending|0|t");
  EXPECT_EQ(worker.stats().released, released + 1);
}

TEST_P(WorkerStopTest, AHandlerThatHeedsNothingDoesNotKeepItsTask) {
  Worker worker{queue, {.concurrency = 1, .stop_grace = 100ms}};
  Signal started;
  Signal go;
  worker.on("t", [&](Task&) {
    started.set();
    EXPECT_TRUE(go.wait());
  });
  enqueue();
  RunningWorker running{worker};
  ASSERT_TRUE(started.wait());
  running.stop();
  ASSERT_TRUE(eventually([&] { return rows("state, attempts") == "pending|0"; }, 60s));
  EXPECT_FALSE(running.has_ended()) << "a thread can not be killed";
  go.set();
  ASSERT_TRUE(running.ended());
  EXPECT_EQ(rows("state, attempts"), "pending|0") << "its return changed nothing";
}

TEST_P(WorkerStopTest, AStopDoesNotBreakATransactionThatCompletesATask) {
  Worker worker{queue, {.concurrency = 1, .stop_grace = 0ms}};
  Signal handed_over;
  worker.on("t", [&](Task& task) {
    in_transaction(queue, [&](const OwnTransaction& transaction) {
      transaction.complete_in(task);
      handed_over.set();
      EXPECT_TRUE(wait_for_stop(task.stop_token()));
      EXPECT_EQ(task.stop_reason(), StopReason::shutdown);
    });
  });
  enqueue();
  RunningWorker running{worker};
  ASSERT_TRUE(handed_over.wait());
  running.stop();
  ASSERT_TRUE(running.ended());
  EXPECT_EQ(rows("state, attempts"), "completed|1");
}

TEST_P(WorkerStopTest, StopNowEndsTheGrace) {
  Worker worker{queue, {.concurrency = 1, .stop_grace = 1h}};
  Signal started;
  worker.on("t", [&](Task& task) {
    started.set();
    EXPECT_TRUE(wait_for_stop(task.stop_token()));
  });
  enqueue();
  RunningWorker running{worker};
  ASSERT_TRUE(started.wait());
  running.stop();
  EXPECT_FALSE(running.ended(200ms)) << "the grace period runs";
  worker.stop_now();
  ASSERT_TRUE(running.ended());
  EXPECT_EQ(rows("state, attempts"), "pending|0");
}

TEST_P(WorkerStopTest, AnIdleWorkerStopsAtOnce) {
  Worker worker{queue, {.poll_min = 1h, .poll_max = 1h, .stop_grace = 1h}};
  worker.on("t", [](Task&) {});
  RunningWorker running{worker};
  ASSERT_TRUE(eventually([&] { return queue.stats().empty_leases > 0; }, 60s));
  running.stop();
  EXPECT_TRUE(running.ended(10s));
}

/// Only PostgreSQL has connections that handlers could use up.
class ServerWorkerStopTest : public PostgresTaskTest {
 protected:
  TaskId enqueue(const NewTask& task) { return queue.enqueue(task).id; }

  TaskQueue queue{uri()};
};

TEST_F(ServerWorkerStopTest, HandlersThatUseAllConnectionsDoNotDelayRenewals) {
  TaskQueueOptions options;
  options.postgres.connections = 1;
  TaskQueue narrow{uri(), options};
  Worker worker{narrow, {.concurrency = 1, .lease = 6s}};
  Signal started;
  worker.on("t", [&](Task& task) {
    started.set();
    // Waits for a lock on the queue's only connection.
    narrow.cancel(TaskId{std::stoll(task.payload())});
    EXPECT_EQ(task.stop_reason(), StopReason::none);
  });
  const auto locked = enqueue({.type = "other"});
  pqxx::connection connection{uri()};
  pqxx::work lock{connection};
  lock.exec("SELECT FROM leasehold.tasks WHERE id = " + std::to_string(locked.value) +
            " FOR UPDATE");
  const auto id = enqueue({.type = "t", .payload = std::to_string(locked.value)});
  const RunningWorker running{worker};
  ASSERT_TRUE(started.wait());
  EXPECT_TRUE(eventually([&] { return worker.stats().renewals >= 4; }, 60s));
  lock.abort();
  EXPECT_TRUE(eventually([&] { return queue.get(id)->state == TaskState::completed; }, 60s));
  EXPECT_EQ(queue.get(id)->attempts, 1);
}

}  // namespace
}  // namespace leasehold::testing
