// Several workers, recoverers and updaters at once: nothing is done twice, nothing is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <pqxx/pqxx>
#include <random>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "tests/support/eventually.hpp"
#include "tests/support/own_transaction.hpp"
#include "tests/support/postgres_tasks.hpp"
#include "tests/support/task_store.hpp"
#include "tests/support/together.hpp"

namespace leasehold::testing {
namespace {

class TaskConcurrencyTest : public OnEveryTaskStore {};
ON_EVERY_STORE(TaskConcurrencyTest);

/// As often as somebody keeps its row locked.
void complete_patiently(TaskLease& lease) {
  while (true) {
    try {
      EXPECT_EQ(lease.complete(), LeaseWrite::accepted);
      return;
    } catch (const ServerRefused& refused) {
      EXPECT_EQ(refused.reason(), ServerRefused::Reason::conflict) << refused.what();
    }
  }
}

/// What only several connections to one server can do to each other.
class TaskLocksTest : public PostgresTaskTest {};

TEST_P(TaskConcurrencyTest, FiveWorkersAndNoTaskTwice) {
  TaskQueue queue{uri(), {.postgres = {.connections = 5}}};
  constexpr int tasks = 1'000;
  queue.enqueue(std::vector<NewTask>(tasks, {.type = "t"}));

  std::mutex mutex;
  std::map<TaskId, int> done;
  together(5, [&](int worker) {
    const std::string name = "worker " + std::to_string(worker);
    for (;;) {
      // Of different sizes, so that they meet in all ways.
      auto leases =
          queue.lease({.types = {"t"}, .limit = 1 + std::size_t(worker) * 3, .worker = name});
      if (leases.empty()) return;
      {
        const std::lock_guard guard(mutex);
        for (const auto& lease : leases) ++done[lease.id()];
      }
      EXPECT_TRUE(queue.complete(leases).empty());
    }
  });
  EXPECT_EQ(done.size(), std::size_t(tasks));
  for (const auto& [id, times] : done) EXPECT_EQ(times, 1) << "task " << id;
  EXPECT_EQ(count("state = 'completed'"), tasks);
}

TEST_P(TaskConcurrencyTest, AnExpiredLeaseIsRecoveredAndLeasedAgain) {
  TaskQueue queue{uri(), {.recovery = std::nullopt}};
  const auto task = queue.enqueue({.type = "t", .payload = "1"});
  auto leases = queue.lease({.types = {"t"}, .duration = 100ms, .worker = "dead"});
  ASSERT_EQ(leases.size(), 1U);
  leases.front().abandon();
  EXPECT_TRUE(queue.lease({.types = {"t"}}).empty()) << "leased to one at a time";

  Recovery recovery{queue};
  RecoveryReport report;
  ASSERT_TRUE(eventually([&] {
    report = recovery.run_once();
    return !report.tasks.empty();
  }));
  ASSERT_EQ(report.tasks.size(), 1U);
  EXPECT_EQ(report.requeued, 1U);
  EXPECT_EQ(report.dead, 0U);
  EXPECT_EQ(report.tasks[0].id, task.id);
  EXPECT_EQ(report.tasks[0].worker, "dead");
  EXPECT_EQ(report.tasks[0].crash_count, 1);
  EXPECT_GE(report.tasks[0].overdue, 0ms);

  auto again = lease_one(queue);
  EXPECT_EQ(again.id(), task.id);
  EXPECT_EQ(again.attempt(), 2);
  EXPECT_EQ(again.crash_count(), 1);
  again.complete();
}

TEST_P(TaskConcurrencyTest, OfTwoUpdatersOfOneVersionOneWins) {
  TaskQueue queue{uri(), {.postgres = {.connections = 8}}};
  const auto task = queue.enqueue({.type = "t"});
  for (int round = 0; round < 20; ++round) {
    const auto version = queue.get(task.id)->version;
    std::atomic<int> won{0};
    std::atomic<int> lost{0};
    together(8, [&](int i) {
      const auto outcome = queue.update(task.id, version, {.priority = i}).outcome;
      if (outcome == Update::Outcome::updated) ++won;
      if (outcome == Update::Outcome::conflict) ++lost;
    });
    EXPECT_EQ(won, 1);
    EXPECT_EQ(lost, 7);
  }
}

// The stale-attempt suite: the first holder paused past its expiry, the task is recovered and
// leased again; whatever the first one then does is refused and changes nothing.
class StaleAttemptTest : public OnEveryTaskStore {
 protected:
  void SetUp() override {
    queue.emplace(uri());
    id = queue->enqueue({.type = "t", .max_attempts = 5}).id;
    stale.emplace(lease_one(*queue, "t", "first"));
    expire(id);
    EXPECT_EQ(Recovery{*queue}.run_once().requeued, 1U);
    held.emplace(lease_one(*queue, "t", "second"));
    before = row();
  }
  void TearDown() override {
    EXPECT_EQ(row(), before) << "a stale holder changed the task";
    EXPECT_EQ(held->complete(), LeaseWrite::accepted);
    EXPECT_GE(queue->stats().stale_writes, 1U);
  }
  std::string row() {
    return sql("SELECT * FROM leasehold.tasks WHERE id = " + std::to_string(id.value));
  }

  std::optional<TaskQueue> queue;
  TaskId id;
  std::optional<TaskLease> stale;
  std::optional<TaskLease> held;
  std::string before;
};
ON_EVERY_STORE(StaleAttemptTest);

TEST_P(StaleAttemptTest, RenewalIsRefused) { EXPECT_EQ(stale->extend(), LeaseWrite::stale); }
TEST_P(StaleAttemptTest, ProgressIsRefused) { EXPECT_EQ(stale->progress("1"), LeaseWrite::stale); }
TEST_P(StaleAttemptTest, CompletionIsRefused) { EXPECT_EQ(stale->complete(), LeaseWrite::stale); }
TEST_P(StaleAttemptTest, FailureIsRefused) { EXPECT_EQ(stale->fail("no"), FailOutcome::stale); }
TEST_P(StaleAttemptTest, ReleaseIsRefused) { EXPECT_EQ(stale->release(), LeaseWrite::stale); }
TEST_P(StaleAttemptTest, BatchRenewalIsRefused) {
  EXPECT_EQ(queue->extend({&*stale, 1}), std::vector{id});
}
TEST_P(StaleAttemptTest, BatchCompletionIsRefused) {
  EXPECT_EQ(queue->complete({&*stale, 1}), std::vector{id});
}
TEST_P(StaleAttemptTest, DeletingCompletionIsRefused) {
  TaskQueue deleting{uri(), {.retention = Retention::delete_at_once()}};
  const TaskId other = deleting.enqueue({.type = "u"}).id;
  auto lease = lease_one(deleting, "u");
  expire(other);
  EXPECT_EQ(Recovery{deleting}.run_once().requeued, 1U);
  EXPECT_EQ(lease.complete(), LeaseWrite::stale);
  EXPECT_EQ(deleting.get(other)->state, TaskState::pending);
  EXPECT_EQ(stale->complete(), LeaseWrite::stale);
}
TEST_P(StaleAttemptTest, AbandonedHandleChangesNothing) { stale.reset(); }

TEST_P(TaskConcurrencyTest, ALateHolderMayStillRenewWhatWasNotTakenBack) {
  TaskQueue queue{uri()};
  const auto task = queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  expire(task.id);
  EXPECT_EQ(lease.extend(), LeaseWrite::accepted);
  EXPECT_TRUE(Recovery{queue}.run_once().tasks.empty()) << "a renewal that commits first wins";
  EXPECT_EQ(lease.complete(), LeaseWrite::accepted);
}

TEST_P(TaskConcurrencyTest, FourRecoverersRaceCompletionsAndRenewals) {
  TaskQueue queue{uri(), {.postgres = {.connections = 8}}};
  constexpr std::size_t tasks = 400;
  queue.enqueue(std::vector<NewTask>(tasks, {.type = "t"}));
  auto leases = queue.lease({.types = {"t"}, .limit = tasks});
  ASSERT_EQ(leases.size(), tasks);
  expire_all();

  std::vector<TaskLease> to_complete;
  std::vector<TaskLease> to_extend;
  for (std::size_t i = 0; i < tasks; ++i) {
    (i % 2 == 0 ? to_complete : to_extend).push_back(std::move(leases[i]));
  }
  std::mutex mutex;
  std::map<TaskId, int> recovered;
  std::set<TaskId> completed;
  std::set<TaskId> extended;
  together(6, [&](int i) {
    if (i < 4) {
      const auto report = Recovery{queue, {.batch = 7}}.run_once();
      const std::lock_guard guard(mutex);
      for (const auto& task : report.tasks) ++recovered[task.id];
    } else if (i == 4) {
      for (auto& lease : to_complete) {
        if (lease.complete() == LeaseWrite::accepted) completed.insert(lease.id());
      }
    } else {
      for (auto& lease : to_extend) {
        if (lease.extend(1h) == LeaseWrite::accepted) extended.insert(lease.id());
      }
    }
  });
  // What was locked by somebody at the wrong moment is left to the next round.
  for (const auto& task : Recovery{queue}.run_once().tasks) ++recovered[task.id];

  for (const auto& [id, times] : recovered) EXPECT_EQ(times, 1) << "task " << id;
  for (const TaskId id : completed) EXPECT_FALSE(recovered.contains(id)) << "task " << id;
  for (const TaskId id : extended) EXPECT_FALSE(recovered.contains(id)) << "task " << id;
  EXPECT_EQ(recovered.size() + completed.size() + extended.size(), tasks) << "none lost";
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'pending'"),
            std::to_string(recovered.size()));
  for (auto& lease : to_extend) {
    if (extended.contains(lease.id())) {
      EXPECT_EQ(lease.complete(), LeaseWrite::accepted);
    }
  }
}

TEST_P(TaskConcurrencyTest, APoisonTaskIsDeadAfterAFewCrashes) {
  TaskQueue queue{uri()};
  const auto task = queue.enqueue({.type = "t", .max_attempts = 100});
  Recovery recovery{queue, {.max_crashes = 3}};
  for (int crash = 1; crash <= 3; ++crash) {
    lease_one(queue).abandon();  // as a crash does
    expire(task.id);
    const auto report = recovery.run_once();
    ASSERT_EQ(report.tasks.size(), 1U);
    EXPECT_EQ(report.tasks[0].crash_count, crash);
    EXPECT_EQ(report.tasks[0].state, crash < 3 ? TaskState::pending : TaskState::dead);
  }
  EXPECT_TRUE(queue.lease({.types = {"t"}}).empty());
  const auto record = queue.get(task.id);
  EXPECT_EQ(record->state, TaskState::dead);
  EXPECT_NE(record->last_error.find("w expired"), std::string::npos) << record->last_error;
  EXPECT_EQ(queue.stats().recovered, 3U);
  EXPECT_EQ(queue.stats().dead, 1U);
}

TEST_P(TaskConcurrencyTest, ACrashInTheLastAttemptIsDead) {
  TaskQueue queue{uri()};
  const auto task = queue.enqueue({.type = "t", .max_attempts = 1});
  lease_one(queue).abandon();
  expire(task.id);
  EXPECT_EQ(Recovery{queue}.run_once().dead, 1U);
}

// Each would hold the key that the other one wants next.
TEST_P(TaskConcurrencyTest, BatchesWithTheSameKeysInAnyOrderDoNotDeadlock) {
  TaskQueue queue{uri()};
  std::vector<Enqueued> answers;
  std::jthread other;
  in_transaction(queue, [&](const OwnTransaction& transaction) {
    transaction.enqueue_in(queue, NewTask{.type = "t", .unique_key = "a"});
    other = std::jthread([&] {
      answers = queue.enqueue(std::vector<NewTask>{{.type = "t", .unique_key = "c"},
                                                   {.type = "t"},
                                                   {.type = "t", .unique_key = "b"},
                                                   {.type = "t", .unique_key = "a"}});
    });
    if (in_postgres()) {
      EXPECT_TRUE(eventually([&] {
        return sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query "
                   "LIKE '%leasehold enqueue%' AND datname = current_database()") == "1";
      }));
    }
    EXPECT_NO_THROW(transaction.enqueue_in(queue, NewTask{.type = "t", .unique_key = "b"}));
  });
  other.join();
  if (in_postgres()) {
    EXPECT_EQ(queue.stats().retries, 0U);
  }
  ASSERT_EQ(answers.size(), 4U);
  using Outcome = Enqueued::Outcome;
  EXPECT_EQ(answers[0].outcome, Outcome::added);
  EXPECT_EQ(answers[1].outcome, Outcome::added);
  EXPECT_EQ(answers[2].outcome, Outcome::exists);
  EXPECT_EQ(answers[3].outcome, Outcome::exists);
  EXPECT_LT(answers[0].id, answers[1].id) << "in order, whatever the order of the keys";
  EXPECT_EQ(queue.get(answers[0].id)->unique_key, "c");
  EXPECT_EQ(queue.get(answers[1].id)->unique_key, "");
  EXPECT_EQ(queue.get(answers[2].id)->unique_key, "b");
  EXPECT_EQ(queue.get(answers[3].id)->unique_key, "a");
}

TEST_F(TaskLocksTest, RecoveryPagesOnPastWhatIsLocked) {
  TaskQueue queue{uri()};
  queue.enqueue(std::vector<NewTask>(50, {.type = "t"}));
  auto leases = queue.lease({.types = {"t"}, .limit = 50});
  for (auto& lease : leases) lease.abandon();
  sql("UPDATE leasehold.tasks SET lease_expiry = now() - interval '1 s'");
  pqxx::connection other{uri()};
  pqxx::work locks{other};
  locks.exec("SELECT FROM leasehold.tasks WHERE id <= " + std::to_string(leases[9].id().value) +
             " FOR UPDATE");
  EXPECT_EQ((Recovery{queue, {.batch = 5}}).run_once().requeued, 40U);
  locks.abort();
  EXPECT_EQ((Recovery{queue, {.batch = 5}}).run_once().requeued, 10U);
}

TEST_P(TaskConcurrencyTest, SixteenThreadsAddOneUniqueKeyOnce) {
  TaskQueue queue{uri(), {.postgres = {.connections = 16}}};
  for (int round = 0; round < 15; ++round) {
    const NewTask task{.type = "t", .unique_key = "key " + std::to_string(round)};
    std::mutex mutex;
    std::set<TaskId> ids;
    int added = 0;
    together(16, [&](int) {
      const auto answer = queue.enqueue(task);
      const std::lock_guard guard(mutex);
      ids.insert(answer.id);
      if (answer.outcome == Enqueued::Outcome::added) ++added;
    });
    EXPECT_EQ(ids.size(), 1U);
    EXPECT_EQ(added, 1);
  }
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks"), "15");
}

// Workers complete while others enqueue the same key: at any time one living task has it at most,
// and every answer names a task that exists.
TEST_P(TaskConcurrencyTest, AUniqueKeyRacesWithItsCompletion) {
  TaskQueue queue{uri(), {.postgres = {.connections = 8}}};
  std::atomic<int> added{0};
  std::atomic<int> completed{0};
  std::atomic<int> producers{4};
  together(6, [&](int i) {
    if (i < 4) {
      for (int n = 0; n < 100; ++n) {
        if (queue.enqueue({.type = "t", .unique_key = "k"}).outcome == Enqueued::Outcome::added) {
          ++added;
        }
      }
      --producers;
    } else {
      while (producers > 0 || completed < added) {
        for (auto& lease : queue.lease({.types = {"t"}})) {
          if (lease.complete() == LeaseWrite::accepted) ++completed;
        }
      }
    }
  });
  EXPECT_EQ(completed, added);
  EXPECT_EQ(count("true"), added);
}

// Small completions of several threads are made as one statement, whose answer names ids only.
TEST_P(TaskConcurrencyTest, AStaleCompletionBesideTheRightOneIsRefused) {
  TaskQueue queue{uri()};
  for (int round = 0; round < 5; ++round) {
    const TaskId task = queue.enqueue({.type = "t"}).id;
    TaskLease stale = lease_one(queue);
    expire(task);
    ASSERT_EQ(Recovery(queue).run_once().requeued, 1U);
    TaskLease current = lease_one(queue);
    queue.enqueue({.type = "first"});
    TaskLease first = lease_one(queue, "first");

    // While the completion of the first one waits for its row, the other two gather.
    LeaseWrite of_stale{};
    LeaseWrite of_current{};
    std::vector<std::jthread> completing;
    in_transaction(queue, [&](const OwnTransaction& blocking) {
      if (in_postgres()) {
        blocking.execute("SELECT FROM leasehold.tasks WHERE type = 'first' FOR UPDATE");
      }
      completing.emplace_back([&] { complete_patiently(first); });
      if (in_postgres()) {
        EXPECT_TRUE(eventually([&] {
          return sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "1";
        }));
      }
      completing.emplace_back([&] { of_stale = stale.complete(); });
      completing.emplace_back([&] { of_current = current.complete(); });
      std::this_thread::sleep_for(50ms);  // to gather; if they do not, there is nothing to see
    });
    completing.clear();
    EXPECT_EQ(of_stale, LeaseWrite::stale);
    EXPECT_EQ(of_current, LeaseWrite::accepted);
    sql("DELETE FROM leasehold.tasks");
  }
}

TEST_F(TaskLocksTest, ALockedRowDoesNotKeepOtherLeasesFromRenewal) {
  TaskQueue queue{uri(), {.recovery = std::nullopt}};
  queue.enqueue(std::vector<NewTask>(4, {.type = "t"}));
  auto leases = queue.lease({.types = {"t"}, .limit = 4, .duration = 1h});
  ASSERT_EQ(leases.size(), 4U);
  const auto id = [&](std::size_t i) { return std::to_string(leases[i].id().value); };
  // Another worker has the last one, with the same version.
  sql("UPDATE leasehold.tasks SET lease_id = 5 WHERE id = " + id(3));
  sql("UPDATE leasehold.tasks SET lease_expiry = now(), started = false");
  pqxx::connection other{uri()};
  pqxx::work locks{other};
  locks.exec("SELECT FROM leasehold.tasks WHERE id = " + id(1) + " FOR UPDATE");

  EXPECT_EQ(queue.extend(leases), std::vector{leases[3].id()}) << "the locked one is not stale";
  EXPECT_EQ(sql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM leasehold.tasks "
                "WHERE lease_expiry > now() + interval '30 min' AND started"),
            id(0) + " " + id(2));
  try {
    leases[1].extend();
    ADD_FAILURE() << "renewed";
  } catch (const ServerRefused& refused) {
    EXPECT_EQ(refused.reason(), ServerRefused::Reason::conflict) << refused.what();
  }
  locks.abort();
  EXPECT_EQ(leases[1].extend(), LeaseWrite::accepted);
  leases.pop_back();
  EXPECT_TRUE(queue.complete(leases).empty());
}

TEST_F(TaskLocksTest, NoWriteOfAHolderWaitsForALockUntilItsTimeOut) {
  TaskQueue queue{uri(), {.postgres = {.command_timeout = 500ms}, .recovery = std::nullopt}};
  queue.enqueue(std::vector<NewTask>(3, {.type = "t"}));
  auto leases = queue.lease({.types = {"t"}, .limit = 3, .duration = 1h});
  ASSERT_EQ(leases.size(), 3U);
  pqxx::connection other{uri()};
  pqxx::work locks{other};
  locks.exec("SELECT FROM leasehold.tasks FOR UPDATE");
  const auto refused = [](auto&& write) {
    try {
      write();
      return std::string("accepted");
    } catch (const ServerRefused& error) {
      return std::string(error.reason() == ServerRefused::Reason::conflict ? "a conflict"
                                                                           : error.what());
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  TaskLease& lease = leases.front();
  EXPECT_EQ(refused([&] { lease.progress("1"); }), "a conflict");
  EXPECT_EQ(refused([&] { lease.complete(); }), "a conflict");
  EXPECT_EQ(refused([&] { queue.complete(leases); }), "a conflict");
  EXPECT_EQ(refused([&] { lease.fail("no"); }), "a conflict");
  EXPECT_EQ(refused([&] { lease.release(); }), "a conflict");
  EXPECT_EQ(refused([&] { queue.release(leases); }), "a conflict");
  locks.abort();
  EXPECT_EQ(leases[0].progress("1"), LeaseWrite::accepted) << "it is still ours";
  EXPECT_EQ(leases[0].complete(), LeaseWrite::accepted);
  EXPECT_EQ(leases[1].fail("no"), FailOutcome::retried);
  EXPECT_EQ(leases[2].release(), LeaseWrite::accepted);
}

TEST_F(TaskLocksTest, OnlySoManyLeaseAtOnceAndTheOthersWaitForThem) {
  TaskQueue queue{uri(), {.postgres = {.command_timeout = 300ms}, .recovery = std::nullopt}};
  queue.enqueue({.type = "t"});
  // As if sixteen others were leasing.
  sql("SELECT pg_advisory_lock(hashtext('leases of \"leasehold\"'), n) FROM generate_series(0, 15) "
      "n");
  EXPECT_THROW(queue.lease({.types = {"t"}}), Unavailable);

  TaskQueue patient{uri(), {.recovery = std::nullopt}};
  std::jthread leasing([&] { EXPECT_EQ(patient.lease({.types = {"t"}}).size(), 1U); });
  sql("SELECT pg_advisory_unlock(hashtext('leases of \"leasehold\"'), 7)");
  leasing.join();
  sql("SELECT pg_advisory_unlock_all()");
}

// While one completion waits for its row, others gather. They lose patience with it, and go
// together in one statement. What somebody has locked holds up nobody but its own caller.
TEST_F(TaskLocksTest, CompletionsThatShareAStatementDoNotWaitForALockedRow) {
  for (const auto retention : {Retention::delete_at_once(), Retention::keep_forever()}) {
    TaskQueue queue{uri(), TaskQueueOptions{.retention = retention}};
    pqxx::connection connection{uri()};
    queue.enqueue(std::vector<NewTask>(2, {.type = "locked"}));
    TaskLease first = lease_one(queue, "locked");
    TaskLease second = lease_one(queue, "locked");
    queue.enqueue({.type = "free"});
    TaskLease free = lease_one(queue, "free");

    pqxx::work blocking{connection};
    blocking.exec("SELECT FROM leasehold.tasks WHERE type = 'locked' FOR UPDATE");
    std::jthread one([&] { complete_patiently(first); });
    ASSERT_TRUE(eventually([&] {
      return sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "1";
    }));
    std::jthread two([&] { complete_patiently(second); });  // collected with the next one
    EXPECT_EQ(free.complete(), LeaseWrite::accepted);
    blocking.commit();
  }
}

class SmallCallsTest : public PostgresTaskTest {
 protected:
  void SetUp() override {
    PostgresTaskTest::SetUp();
    sql("ALTER DATABASE " + database() + " SET track_functions = 'pl'");
  }
  void TearDown() override { sql("ALTER DATABASE " + database() + " RESET track_functions"); }
  /// How often a function has completed and leased in one statement.
  static int shared_commits() {
    return std::stoi(
        sql("SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE schemaname = "
            "'leasehold' AND funcname = 'complete_and_lease'"));
  }
};

// Some complete a task while others lease the next one.
TEST_F(SmallCallsTest, ThreadsThatWorkOneByOneShareCommitsAndDoEachTaskOnce) {
  for (const auto retention : {Retention::delete_at_once(), Retention::keep_forever()}) {
    const int before = shared_commits();
    std::map<TaskId, int> done;
    {
      TaskQueue queue{uri(), {.postgres = {.connections = 4}, .retention = retention}};
      queue.enqueue(std::vector<NewTask>(1'000, {.type = "t"}));
      std::mutex mutex;
      together(8, [&](int) {
        for (;;) {
          auto leases = queue.lease({.types = {"t"}, .limit = 2});
          if (leases.empty()) return;
          {
            const std::lock_guard guard(mutex);
            for (const auto& lease : leases) ++done[lease.id()];
          }
          for (auto& lease : leases) EXPECT_EQ(lease.complete(), LeaseWrite::accepted);
        }
      });
    }
    EXPECT_EQ(done.size(), 1'000U);
    for (const auto& [id, times] : done) EXPECT_EQ(times, 1) << id.value;
    EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks"), "0");
    EXPECT_TRUE(eventually([&] { return shared_commits() > before; })) << "reported with a delay";
  }
}

// A statement for both is refused because of one row, or nothing may be leased now: each gets what
// it would have got alone.
TEST_F(SmallCallsTest, ATroubleOfOneCallIsNotOneOfTheOthers) {
  TaskQueue queue{uri(), {.postgres = {.connections = 4}, .recovery = std::nullopt}};
  queue.enqueue(std::vector<NewTask>(1, {.type = "locked"}));
  TaskLease locked = lease_one(queue, "locked");
  queue.enqueue(std::vector<NewTask>(400, {.type = "t"}));
  pqxx::connection connection{uri()};
  pqxx::work blocking{connection};
  blocking.exec("SELECT FROM leasehold.tasks WHERE type = 'locked' FOR UPDATE");
  pqxx::connection others{uri()};
  pqxx::nontransaction leasing{others};
  std::atomic<int> working{6};
  together(8, [&](int thread) {
    if (thread == 6) {
      while (working > 0) {
        EXPECT_THROW(locked.complete(), ServerRefused);
      }
      return;
    }
    if (thread == 7) {  // as if sixteen others were leasing, again and again
      while (working > 0) {
        leasing.exec(
            "SELECT pg_advisory_lock(hashtext('leases of \"leasehold\"'), n) "
            "FROM generate_series(0, 15) n");
        leasing.exec("SELECT pg_advisory_unlock_all()");
      }
      return;
    }
    for (;;) {
      auto leases = queue.lease({.types = {"t"}, .limit = 1});
      if (leases.empty()) break;
      EXPECT_EQ(leases.front().complete(), LeaseWrite::accepted);
    }
    --working;
  });
  blocking.commit();
  EXPECT_EQ(locked.complete(), LeaseWrite::accepted);
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks"), "0");
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.finished_tasks"), "401");
}

// While one lease waits, others gather and go together in one statement. Each has its own limit.
TEST_F(TaskLocksTest, LeasesThatShareAStatementKeepToTheirOwnBytes) {
  TaskQueue queue{uri(), {.recovery = std::nullopt}};
  queue.enqueue(
      std::vector<NewTask>(20, {.type = "t", .payload = '"' + std::string(2'000, 'x') + '"'}));
  const auto lease = [&](std::size_t max_bytes) {
    return queue.lease({.types = {"t"}, .limit = 6, .worker = "w", .max_bytes = max_bytes});
  };
  const auto waiting = [] {
    return sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "1";
  };
  pqxx::connection connection{uri()};
  pqxx::work blocking{connection};
  blocking.exec("LOCK TABLE leasehold.tasks IN ACCESS EXCLUSIVE MODE");
  std::vector<TaskLease> first;
  std::vector<TaskLease> large;
  std::vector<TaskLease> small;
  std::jthread one([&] { first = lease(100'000); });
  ASSERT_TRUE(eventually(waiting));
  std::jthread two([&] { large = lease(100'000); });
  std::this_thread::sleep_for(10ms);  // in this order; if not, there is nothing to see
  std::jthread three([&] { small = lease(3'000); });
  std::this_thread::sleep_for(10ms);
  blocking.commit();
  one.join();
  two.join();
  three.join();
  EXPECT_EQ(first.size(), 6U);
  EXPECT_EQ(large.size(), 6U);
  EXPECT_EQ(small.size(), 1U) << "more do not fit";
  for (auto* leases : {&first, &large, &small}) queue.complete(*leases);
}

// Enqueuers go by keys, workers by ids, and neither of these is the order of the other. Two queues:
// to the server they are two processes.
TEST_F(TaskLocksTest, BatchesOfKeysDoNotDeadlockWithWorkersThatHaveThem) {
  constexpr int keys = 30;
  TaskQueue producer{uri(), {.postgres = {.connections = 4}}};
  TaskQueue worker{uri(), {.postgres = {.connections = 4}, .recovery = std::nullopt}};
  std::atomic<int> producing{4};
  std::atomic<std::size_t> existed{0};
  std::atomic<std::size_t> added{0};
  std::atomic<std::size_t> completed{0};
  together(8, [&](int i) {
    if (i < 4) {
      std::mt19937 random(static_cast<unsigned>(i));
      std::vector<NewTask> batch;
      for (int key = 0; key < keys; ++key) {
        batch.push_back({.type = "t", .unique_key = "key " + std::to_string(key)});
      }
      for (int n = 0; n < 150; ++n) {
        std::shuffle(batch.begin(), batch.end(), random);
        for (const Enqueued& answer : producer.enqueue(std::span(batch).first(keys * 2 / 3))) {
          ++(answer.outcome == Enqueued::Outcome::added ? added : existed);
        }
      }
      --producing;
      return;
    }
    while (producing > 0 || completed < added) {
      auto leases = worker.lease({.types = {"t"}, .limit = 10});
      // Slow enough to be met while they are leased.
      for (int n = 0; n < 3; ++n) EXPECT_TRUE(worker.extend(leases).empty());
      EXPECT_TRUE(worker.complete(leases).empty());
      completed += leases.size();
    }
  });
  EXPECT_EQ(completed, added);
  EXPECT_GT(existed, 1'000U);
  EXPECT_EQ(producer.stats().retries, 0U) << "deadlocks";
  EXPECT_EQ(worker.stats().retries, 0U) << "deadlocks";
  EXPECT_EQ(sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"), "0");
}

TEST_F(TaskLocksTest, BatchesInOppositeOrderDoNotDeadlock) {
  TaskQueue queue{uri(), {.postgres = {.connections = 4}}};
  queue.enqueue(std::vector<NewTask>(200, {.type = "t"}));
  auto leases = queue.lease({.types = {"t"}, .limit = 200});
  // We have them backwards; the other one goes forwards. The queue sorts them.
  std::reverse(leases.begin(), leases.end());
  together(2, [&](int i) {
    for (int n = 0; n < 20; ++n) {
      if (i == 0) {
        EXPECT_TRUE(queue.extend(leases).empty());
      } else {
        sql("UPDATE leasehold.tasks t SET updated_at = now() FROM (SELECT id FROM leasehold.tasks "
            "ORDER BY id FOR NO KEY UPDATE) s WHERE t.id = s.id");
      }
    }
  });
  EXPECT_EQ(sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"), "0");
  EXPECT_TRUE(queue.complete(leases).empty());
}

}  // namespace
}  // namespace leasehold::testing
