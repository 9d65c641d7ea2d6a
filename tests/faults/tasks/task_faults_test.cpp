// Tasks on a bad network and a server that goes away: what did not happen, what may have happened,
// and that nothing is lost or done twice.
#include <gtest/gtest.h>

#include <leasehold/tasks.hpp>
#include <memory>
#include <optional>
#include <pqxx/pqxx>
#include <thread>
#include <vector>

#include "harness/postgres_server.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fault_proxy.hpp"
#include "tests/support/sqlite_connection.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::steady_clock;
using Then = FaultProxy::Then;

/// A server of our own, behind a bad network.
class TaskFaultsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { shared = std::make_unique<PostgresServer>(); }
  static void TearDownTestSuite() { shared.reset(); }
  void SetUp() override {
    sql("SET client_min_messages = warning; DROP SCHEMA IF EXISTS leasehold CASCADE");
    migrate(server.uri());
  }

  TaskQueueOptions options(std::chrono::milliseconds timeout = 10s) const {
    return {.postgres = {.connections = 2, .command_timeout = timeout}};
  }
  static TaskLease lease_one(TaskQueue& queue) {
    auto leases = queue.lease({.types = {"t"}});
    if (leases.size() != 1) throw std::runtime_error("nothing to lease");
    return std::move(leases.front());
  }
  /// Completes a task, so that the connection has prepared the statements of that: the next request
  /// that names one executes it.
  static void prepare(TaskQueue& queue) {
    queue.enqueue({.type = "t"});
    auto lease = lease_one(queue);
    EXPECT_EQ(lease.extend(), LeaseWrite::accepted);
    EXPECT_EQ(lease.complete(), LeaseWrite::accepted);
  }
  std::string sql(const std::string& statement) const { return server.run_sql(statement); }

  static inline std::unique_ptr<PostgresServer> shared;
  PostgresServer& server = *shared;
  FaultProxy proxy{server.port()};
  const std::string bad_uri = PostgresServer::uri_through(proxy.port());
};

TEST_F(TaskFaultsTest, AnAbsentServerIsUnavailableAndComesBack) {
  TaskQueue queue{bad_uri};
  proxy.refuse(true);
  EXPECT_THROW(queue.enqueue({.type = "t"}), Unavailable);
  EXPECT_THROW(queue.enqueue({.type = "t"}), Unavailable);
  proxy.refuse(false);
  EXPECT_TRUE(eventually([&] {
    try {
      queue.enqueue({.type = "t"});
      return true;
    } catch (const Unavailable&) {
      return false;
    }
  }));
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks"), "1");
}

TEST_F(TaskFaultsTest, ConnectionsThatDiedWhileIdleAreReplacedBeforeAnythingIsSent) {
  TaskQueue queue{server.uri(), options()};
  queue.enqueue({.type = "t"});
  for (int i = 0; i < 3; ++i) {
    server.restart(Data::kept);
    queue.enqueue({.type = "t"});  // throws nothing
  }
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks"), "4");
}

TEST_F(TaskFaultsTest, ALostReplyToAnEnqueueIsOutcomeUnknown) {
  TaskQueue queue{bad_uri};
  queue.enqueue({.type = "t", .unique_key = "first"});
  proxy.swallow_next_reply(Then::cut, "leasehold enqueue");
  EXPECT_THROW(queue.enqueue({.type = "t", .unique_key = "k"}), OutcomeUnknown);
  EXPECT_EQ(queue.enqueue({.type = "t", .unique_key = "k"}).outcome, Enqueued::Outcome::exists)
      << "it had happened, and the key makes it safe to try again";
}

// The lease lasts for an hour: nothing but its name can bring the tasks back.
TEST_F(TaskFaultsTest, TasksWhoseLeaseWasNotHeardOfAreGivenBack) {
  TaskQueue queue{bad_uri};
  queue.enqueue(std::vector<NewTask>(3, {.type = "t"}));
  const LeaseRequest request{.types = {"t"}, .limit = 3, .duration = 1h};
  EXPECT_TRUE(queue.lease({.types = {"other"}}).empty());  // prepares the statement
  proxy.swallow_next_reply(Then::cut, "leasehold_lease");
  EXPECT_THROW(queue.lease(request), OutcomeUnknown);
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'leased'"), "3");
  std::vector<TaskLease> leases;
  EXPECT_TRUE(eventually([&] {
    leases = queue.lease(request);
    return !leases.empty();
  }));
  ASSERT_EQ(leases.size(), 3U);
  for (TaskLease& lease : leases) {
    EXPECT_EQ(lease.attempt(), 1);
    EXPECT_EQ(lease.crash_count(), 0);
    EXPECT_EQ(lease.complete(), LeaseWrite::accepted);
  }
}

TEST_F(TaskFaultsTest, GivingBackDoesNotFailALeaseBecauseTheTableIsLocked) {
  auto with = options();
  with.postgres.command_timeout = 4s;
  with.recovery = std::nullopt;
  TaskQueue queue{bad_uri, with};
  queue.enqueue({.type = "t"});
  EXPECT_TRUE(queue.lease({.types = {"other"}}).empty());  // prepares the statement
  proxy.swallow_next_reply(Then::cut, "leasehold_lease");
  EXPECT_THROW(queue.lease({.types = {"t"}}), OutcomeUnknown);
  pqxx::connection connection{server.uri()};
  pqxx::work locking{connection};
  locking.exec("LOCK TABLE leasehold.tasks");
  EXPECT_THROW(queue.lease({.types = {"t"}}), Unavailable) << "that is the lease's own time-out";
}

TEST_F(TaskFaultsTest, ALostRequestIsOutcomeUnknownToo) {
  TaskQueue queue{bad_uri};
  queue.enqueue({.type = "t"});
  proxy.swallow_next_request(Then::cut, "leasehold enqueue");
  EXPECT_THROW(queue.enqueue({.type = "t"}), OutcomeUnknown) << "it can not be told apart";
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks"), "1");
}

TEST_F(TaskFaultsTest, ALostReplyToACompletionIsLookedUp) {
  for (const auto& retention : {Retention::keep_forever(), Retention::delete_at_once()}) {
    auto with = options();
    with.retention = retention;
    TaskQueue queue{bad_uri, with};
    prepare(queue);
    queue.enqueue({.type = "t"});
    auto lease = lease_one(queue);
    proxy.swallow_next_reply(Then::cut, "leasehold_complete");
    EXPECT_EQ(lease.complete("7"), LeaseWrite::accepted) << "it was ours, and is not called stale";
    EXPECT_EQ(queue.stats().outcomes_unknown, 1U);
    EXPECT_EQ(queue.stats().completed, 2U);
  }
}

TEST_F(TaskFaultsTest, ALostRequestOfACompletionIsMadeAgain) {
  TaskQueue queue{bad_uri, options()};
  prepare(queue);
  const auto task = queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  proxy.swallow_next_request(Then::cut, "leasehold_complete");
  EXPECT_EQ(lease.complete("7"), LeaseWrite::accepted);
  EXPECT_EQ(queue.get(task.id)->result, "7");
}

TEST_F(TaskFaultsTest, LostRepliesToOtherWritesAreResolved) {
  TaskQueue queue{bad_uri, options()};
  prepare(queue);
  const auto task = queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  proxy.swallow_next_reply(Then::cut, "leasehold_extend");
  EXPECT_EQ(lease.extend(), LeaseWrite::accepted);
  EXPECT_EQ(lease.progress("4"), LeaseWrite::accepted);  // prepares it
  proxy.swallow_next_reply(Then::cut, "leasehold_progress");
  EXPECT_EQ(lease.progress("5"), LeaseWrite::accepted);
  proxy.swallow_next_reply(Then::cut, "leasehold fail");
  EXPECT_EQ(lease.fail("no", Retry::after(0ms)), FailOutcome::retried);
  EXPECT_EQ(queue.get(task.id)->attempts, 1);
  EXPECT_EQ(lease_one(queue).release(), LeaseWrite::accepted);  // prepares it
  auto again = lease_one(queue);
  proxy.swallow_next_reply(Then::cut, "leasehold_release");
  EXPECT_EQ(again.release(), LeaseWrite::accepted);
  EXPECT_EQ(queue.get(task.id)->attempts, 1) << "given back once";
  EXPECT_EQ(queue.get(task.id)->progress, "5");
}

TEST_F(TaskFaultsTest, ASilentServerCostsTheTimeOutAndNoMore) {
  TaskQueue queue{bad_uri, options(300ms)};
  std::optional<TaskLease> lease;
  // Again if a busy machine takes longer than the time-out.
  ASSERT_TRUE(eventually(
      [&] {
        try {
          queue.enqueue({.type = "t"});
          lease.emplace(lease_one(queue));
        } catch (const std::exception&) {
        }
        return lease.has_value();
      },
      60s));
  const TaskId id = lease->id();
  proxy.blackhole(true);
  const auto start = steady_clock::now();
  EXPECT_THROW(queue.enqueue({.type = "t"}), OutcomeUnknown);
  EXPECT_LT(steady_clock::now() - start, 5s);
  // Both connections are gone, and new ones can not be made.
  lease.reset();  // the destructor neither throws nor hangs
  proxy.blackhole(false);
  EXPECT_TRUE(eventually(
      [&] {
        try {
          return queue.get(id).has_value();
        } catch (const Error&) {
          return false;
        }
      },
      60s));
}

TEST_F(TaskFaultsTest, WhatWasLeasedIsNotLostWithTheNextStatement) {
  TaskQueue queue{bad_uri, options()};
  queue.enqueue(std::vector<NewTask>(10, {.type = "a"}));
  // Half of the limit is for the type that has nothing; a second statement gives it to the other.
  proxy.swallow_next_request(Then::cut, R"({"a"})");
  auto leases = queue.lease({.types = {"a", "b"}, .limit = 10});
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_EQ(leases.size(), 5U);
  EXPECT_TRUE(queue.complete(leases).empty());
}

// A call of several statements: what the first one leased is in the caller's hands, and is not
// given back with the tasks of the statement whose reply was lost.
TEST_F(TaskFaultsTest, OnlyTasksThatNobodyHeardOfAreGivenBack) {
  TaskQueue queue{bad_uri, options()};
  queue.enqueue(std::vector<NewTask>(10, {.type = "a"}));
  proxy.swallow_next_reply(Then::cut, R"({"a"})");  // of the second statement, as above
  auto leases = queue.lease({.types = {"a", "b"}, .limit = 10, .duration = 1h});
  EXPECT_TRUE(proxy.wait_swallowed());
  ASSERT_EQ(leases.size(), 5U);
  std::vector<TaskLease> others;
  EXPECT_TRUE(eventually([&] {
    for (auto& lease : queue.lease({.types = {"a"}, .limit = 10})) {
      others.push_back(std::move(lease));
    }
    return others.size() >= 5;
  }));
  EXPECT_EQ(others.size(), 5U);
  EXPECT_TRUE(queue.extend(leases).empty()) << "leases that were received are valid";
  EXPECT_TRUE(queue.complete(leases).empty());
  EXPECT_TRUE(queue.complete(others).empty());
}

// Nobody calls lease() after that.
TEST_F(TaskFaultsTest, AWorkerThatStopsGivesBackWhatItHasNotHeardOf) {
  TaskQueue queue{bad_uri, options()};
  TaskQueue direct{server.uri()};
  // It looks only when it hears of tasks.
  Worker worker{queue, {.lease = 1h, .poll_min = 1h, .poll_max = 1h}};
  worker.on("t", [](Task&) {});
  std::stop_source stop;
  std::jthread running([&] { worker.run(stop.get_token()); });
  ASSERT_TRUE(eventually([&] {  // until it listens, and has prepared its statements
    direct.enqueue({.type = "t"});
    return worker.stats().completed > 0;
  }));
  ASSERT_TRUE(eventually([&] { return sql("SELECT count(*) FROM leasehold.tasks") == "0"; }));
  proxy.swallow_next_reply(Then::cut, "leasehold_lease");
  direct.enqueue({.type = "t"});
  ASSERT_TRUE(proxy.wait_swallowed());
  stop.request_stop();
  running.join();
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'leased'"), "0");
}

TEST_F(TaskFaultsTest, ARefusalAfterALostReplyIsOutcomeUnknown) {
  TaskQueue queue{bad_uri, options()};
  prepare(queue);
  queue.enqueue(std::vector<NewTask>(3, {.type = "t"}));
  auto leases = queue.lease({.types = {"t"}, .limit = 3});
  ASSERT_EQ(leases.size(), 3U);
  // For the connections to come only, as after a failover.
  sql("ALTER DATABASE postgres SET default_transaction_read_only = on");
  proxy.swallow_next_reply(Then::cut, "leasehold_complete");
  EXPECT_THROW(leases[0].complete(), OutcomeUnknown);
  const auto state =
      sql("SET default_transaction_read_only = off; ALTER DATABASE postgres RESET "
          "default_transaction_read_only; SELECT state FROM leasehold.finished_tasks WHERE "
          "id = " +
          std::to_string(leases[0].id().value));
  EXPECT_TRUE(state.ends_with("completed")) << state;
  proxy.cut();
  EXPECT_TRUE(eventually([&] {
    try {
      return leases[0].complete() == LeaseWrite::accepted;
    } catch (const OutcomeUnknown&) {
      return false;  // that the connection was cut has not been noticed yet
    }
  })) << "the second call looks up what the first one did";
  leases.erase(leases.begin());
  EXPECT_TRUE(queue.complete(leases).empty());
}

TEST_F(TaskFaultsTest, ALookUpThatFailsLeavesTheOutcomeUnknownAndTheHandlesAsTheyWere) {
  TaskQueue queue{bad_uri, options()};
  prepare(queue);
  queue.enqueue(std::vector<NewTask>(3, {.type = "t"}));
  auto leases = queue.lease({.types = {"t"}, .limit = 3});
  ASSERT_EQ(leases.size(), 3U);
  sql("ALTER TABLE leasehold.tasks RENAME COLUMN created_at TO hidden");  // only looking needs it
  proxy.swallow_next_reply(Then::cut, "leasehold_complete");
  EXPECT_THROW(queue.complete(leases), OutcomeUnknown);
  proxy.swallow_next_reply(Then::cut, "leasehold fail");
  EXPECT_THROW(leases[0].fail("no"), OutcomeUnknown);
  for (const TaskLease& lease : leases) EXPECT_TRUE(lease.valid());
  EXPECT_EQ(queue.stats().completed, 1U);
  sql("ALTER TABLE leasehold.tasks RENAME COLUMN hidden TO created_at");
  EXPECT_TRUE(queue.complete(leases).empty()) << "they were ours";
  EXPECT_EQ(queue.stats().completed, 4U);
  EXPECT_EQ(queue.stats().stale_writes, 0U);
}

TEST_F(TaskFaultsTest, ConnectingIsNotTheStatementsTime) {
  constexpr auto timeout = 6s;
  auto with = options(timeout);
  with.postgres.connect_timeout = 60s;
  TaskQueue queue{bad_uri, with};
  pqxx::connection other{server.uri()};
  pqxx::work busy{other};
  busy.exec("LOCK TABLE leasehold.tasks IN ACCESS EXCLUSIVE MODE");
  proxy.blackhole(true);
  std::jthread looking([&] { EXPECT_NO_THROW(queue.get(TaskId{1})); });
  std::this_thread::sleep_for(timeout);  // connecting alone takes as long as an answer may
  proxy.blackhole(false);
  EXPECT_TRUE(eventually([&] {
    return sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "1";
  }));
  std::this_thread::sleep_for(timeout / 6);  // who watches has looked
  busy.commit();
}

TEST_F(TaskFaultsTest, TooManyConnectionsOfARoleIsUnavailable) {
  sql("DROP ROLE IF EXISTS crowd; CREATE ROLE crowd LOGIN CONNECTION LIMIT 0");
  TaskQueue queue{"postgresql://crowd@127.0.0.1:" + std::to_string(server.port()) + "/postgres"};
  EXPECT_THROW(queue.get(TaskId{1}), Unavailable);
}

TEST_F(TaskFaultsTest, SerializationFailuresAreRetriedFiveTimes) {
  TaskQueue queue{server.uri(), options()};
  const auto task = queue.enqueue({.type = "t"});
  // Fails the first n times. A sequence: it does not roll back.
  const auto fail_times = [&](int n) {
    sql("DROP SEQUENCE IF EXISTS leasehold.failed CASCADE; CREATE SEQUENCE leasehold.failed;"
        "CREATE OR REPLACE FUNCTION leasehold.be_in_the_way() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF nextval('leasehold.failed') <= " +
        std::to_string(n) +
        " THEN "
        "RAISE 'in the way' USING ERRCODE = '40001'; END IF; RETURN new; END $$;"
        "CREATE OR REPLACE TRIGGER in_the_way BEFORE UPDATE ON leasehold.tasks FOR EACH ROW "
        "EXECUTE FUNCTION leasehold.be_in_the_way()");
  };
  fail_times(5);
  EXPECT_EQ(queue.update(task.id, TaskVersion{0}, {.priority = 1}).outcome,
            Update::Outcome::updated);
  EXPECT_EQ(queue.stats().retries, 5U);

  fail_times(6);
  try {
    queue.update(task.id, TaskVersion{1}, {.priority = 2});
    ADD_FAILURE() << "tried once more";
  } catch (const ServerRefused& error) {
    EXPECT_EQ(error.reason(), ServerRefused::Reason::conflict) << error.what();
    EXPECT_TRUE(error.transient());
  }
  EXPECT_EQ(queue.stats().retries, 10U);
  EXPECT_EQ(queue.get(task.id)->priority, 1);
}

TEST_F(TaskFaultsTest, ADeadlockIsRetried) {
  // PostgreSQL looks for a deadlock once, after this time; by then there has to be one.
  TaskQueue queue{server.uri() + "?options=-cdeadlock_timeout%3D4s", options()};
  // Writes of lease holders lose patience before that. These wait, and lock in order of the keys.
  const std::vector<NewTask> tasks{{.type = "t", .unique_key = "a"},
                                   {.type = "t", .unique_key = "b"}};
  const auto added = queue.enqueue(tasks);
  pqxx::connection other{server.uri()};
  pqxx::work backwards{other};
  const auto lock = [&](TaskId id) {
    backwards.exec("SELECT FROM leasehold.tasks WHERE id = " + std::to_string(id.value) +
                   " FOR UPDATE");
  };
  backwards.exec("SET LOCAL deadlock_timeout = '1h'");  // so that the queue is the victim
  lock(added[1].id);
  std::jthread adding(
      [&] { EXPECT_EQ(queue.enqueue(tasks)[1].outcome, Enqueued::Outcome::exists); });
  ASSERT_TRUE(eventually([&] {
    return sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "1";
  }));
  lock(added[0].id);
  backwards.commit();
  adding.join();
  EXPECT_NE(sql("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'"), "0");
}

}  // namespace
}  // namespace leasehold::testing
