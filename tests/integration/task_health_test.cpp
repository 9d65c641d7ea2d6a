// TaskQueue::health(): how a queue fares, for the daemon's gauges.
#include <gtest/gtest.h>

#include "task_fixture.hpp"

namespace leasehold {
namespace {

using Kind = SnapshotHolder::Kind;

class TaskHealthTest : public TaskTest {
 protected:
  TaskQueue queue{uri()};

  /// A connection that says its name.
  static pqxx::connection connect(const std::string& name) {
    return pqxx::connection{uri_with("application_name=" + name)};
  }
};

TEST_F(TaskHealthTest, AnEmptyQueueIsFine) {
  const QueueHealth health = queue.health();
  EXPECT_FALSE(health.oldest_ready);
  EXPECT_FALSE(health.oldest_expired);
  EXPECT_EQ(health.live_rows, 0U);
}

TEST_F(TaskHealthTest, TheOldestReadyTaskOfAllTypesAndPrioritiesIsFound) {
  const auto add = [](const char* type, int priority, const char* due) {
    sql(std::string("INSERT INTO leasehold.tasks (type, payload, priority, run_at) VALUES ('") +
        type + "', '{}', " + std::to_string(priority) + ", now() - interval '" + due + "')");
  };
  add("b", 5, "10 s");
  add("b", 5, "20 s");
  add("a", -3, "-1 hour");  // for later
  EXPECT_GE(queue.health().oldest_ready, 20s);
  EXPECT_LT(queue.health().oldest_ready, 100s);
  add("b", -7, "200 s");
  EXPECT_GE(queue.health().oldest_ready, 200s);
  add("c", 0, "300 s");
  EXPECT_GE(queue.health().oldest_ready, 300s);
  add("a", -3, "400 s");
  EXPECT_GE(queue.health().oldest_ready, 400s);
  sql("UPDATE leasehold.tasks SET run_at = now() + interval '1 hour'");
  EXPECT_FALSE(queue.health().oldest_ready) << "none is due";
  sql("UPDATE leasehold.tasks SET run_at = now() - interval '1 hour', state = 'dead', finished_at "
      "= now()");
  EXPECT_FALSE(queue.health().oldest_ready) << "none is pending";
}

TEST_F(TaskHealthTest, TheOldestExpiredLeaseIsFound) {
  sql("INSERT INTO leasehold.tasks (type, payload, state, leased_by, lease_expiry) VALUES "
      "('t', '{}', 'leased', 'w', now() + interval '1 hour'), "
      "('t', '{}', 'leased', 'w', now() - interval '100 s'), "
      "('u', '{}', 'leased', 'w', now() - interval '50 s')");
  EXPECT_GE(queue.health().oldest_expired, 100s);
  EXPECT_LT(queue.health().oldest_expired, 200s);
  Recovery{queue}.run_once();
  EXPECT_FALSE(queue.health().oldest_expired);
}

TEST_F(TaskHealthTest, RowsAreTheServersEstimates) {
  sql("ALTER TABLE leasehold.tasks SET (autovacuum_enabled = off);"
      "INSERT INTO leasehold.tasks (type, payload) SELECT 't', '{}' FROM generate_series(1, 1000);"
      "UPDATE leasehold.tasks SET type = 'u' WHERE id % 2 = 0");
  sql("SELECT 1");  // statistics are sent with a statement, once a second
  EXPECT_TRUE(eventually([&] {
    sql("SELECT 1");
    const QueueHealth health = queue.health();
    return health.live_rows == 1000 && health.dead_rows == 500;
  }));
}

TEST_F(TaskHealthTest, ATransactionWithASnapshotHoldsVacuumBack) {
  auto connection = connect("nightly-report");
  pqxx::transaction<pqxx::isolation_level::repeatable_read> report{connection};
  const int pid = report.exec1("SELECT pg_backend_pid()")[0].as<int>();
  sql("INSERT INTO leasehold.tasks (type, payload) VALUES ('t', '{}')");  // time goes on
  const auto holder = queue.health().oldest_snapshot;
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->kind, Kind::transaction);
  EXPECT_EQ(holder->pid, pid);
  EXPECT_EQ(holder->name, "nightly-report");
  EXPECT_FALSE(holder->user.empty());
  EXPECT_TRUE(holder->age);
  EXPECT_GE(holder->transactions, 1);
}

TEST_F(TaskHealthTest, ATransactionThatHasOnlyReadHarmsNobody) {
  auto connection = connect("idle-reader");
  pqxx::work idle{connection};
  idle.exec("SELECT 1");
  const auto holder = queue.health().oldest_snapshot;
  EXPECT_FALSE(holder && holder->name == "idle-reader");
}

TEST_F(TaskHealthTest, ATransactionThatHasWrittenHoldsVacuumBack) {
  auto connection = connect("idle-writer");
  pqxx::work idle{connection};
  idle.exec("INSERT INTO leasehold.tasks (type, payload) VALUES ('t', '{}')");
  const auto holder = queue.health().oldest_snapshot;
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->name, "idle-writer");
}

TEST_F(TaskHealthTest, OtherDatabasesDoNotMatter) {
  const std::string name = shared_postgres().create_fresh_database();
  {
    pqxx::connection connection{shared_postgres().uri(name)};
    pqxx::transaction<pqxx::isolation_level::repeatable_read> report{connection};
    const int pid = report.exec1("SELECT pg_backend_pid()")[0].as<int>();
    const auto holder = queue.health().oldest_snapshot;
    EXPECT_FALSE(holder && holder->pid == pid);
  }
  shared_postgres().drop_database(name);
}

TEST_F(TaskHealthTest, PreparedTransactionsAreSeen) {
  testing::PostgresServer server{{.config_lines = {"max_prepared_transactions = 5"}}};
  migrate(server.uri());
  TaskQueue tasks{server.uri()};
  server.run_sql(
      "BEGIN; INSERT INTO leasehold.tasks (type, payload) VALUES ('t', '{}'); "
      "PREPARE TRANSACTION 'forgotten'");
  server.run_sql("INSERT INTO leasehold.tasks (type, payload) VALUES ('t', '{}')");
  auto holder = tasks.health().oldest_snapshot;
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->kind, Kind::prepared);
  EXPECT_EQ(holder->name, "forgotten");
  EXPECT_EQ(holder->pid, 0);
  EXPECT_TRUE(holder->age);
  server.run_sql("ROLLBACK PREPARED 'forgotten'");
  holder = tasks.health().oldest_snapshot;
  EXPECT_FALSE(holder && holder->kind == Kind::prepared);
}

TEST_F(TaskHealthTest, AUserWithoutRightsOnOthersStillGetsTheRest) {
  sql("DO $$ BEGIN IF to_regrole('leasehold_plain') IS NULL THEN CREATE ROLE leasehold_plain "
      "LOGIN; END IF; END $$;"
      "GRANT USAGE ON SCHEMA leasehold TO leasehold_plain; GRANT SELECT ON ALL TABLES IN SCHEMA "
      "leasehold TO leasehold_plain");
  auto connection = connect("somebody-elses");
  pqxx::transaction<pqxx::isolation_level::repeatable_read> report{connection};
  report.exec("SELECT 1");
  sql("INSERT INTO leasehold.tasks (type, payload) VALUES ('t', '{}')");
  TaskQueue other{uri_as("leasehold_plain")};
  const QueueHealth health = other.health();
  EXPECT_TRUE(health.oldest_ready);
  ASSERT_TRUE(health.oldest_snapshot);
  EXPECT_FALSE(health.oldest_snapshot->age) << "when it began is not shown to just anybody";
  EXPECT_GE(health.oldest_snapshot->transactions, 1);
  sql("DROP OWNED BY leasehold_plain; DROP ROLE leasehold_plain");
}

TEST_F(TaskHealthTest, WithoutTablesItIsNoSchema) {
  sql("DROP SCHEMA leasehold CASCADE");
  try {
    queue.health();
    FAIL();
  } catch (const ServerRefused& refused) {
    EXPECT_EQ(refused.reason(), ServerRefused::Reason::no_schema);
  }
}

TEST_F(TaskHealthTest, WhereDoesNotSayThePassword) {
  const TaskQueue with_password{"postgresql://u:hunter2@localhost:5/app?sslmode=disable"};
  EXPECT_EQ(with_password.where(), "postgresql://localhost:5/app");
}

TEST_F(TaskHealthTest, ARemovalCanBeBounded) {
  sql("INSERT INTO leasehold.tasks (type, payload, state, finished_at) "
      "SELECT 't', '{}', state, now() - interval '1 day' FROM "
      "unnest('{completed,dead}'::text[]) state, generate_series(1, 25)");
  const Removal removal{.completed = 1h, .dead = 1h, .chunk = 10, .limit = 15};
  EXPECT_EQ(queue.remove_finished(removal), 20U) << "whole chunks";
  EXPECT_EQ(queue.remove_finished(removal), 15U) << "five completed, then ten dead";
  EXPECT_EQ(queue.remove_finished(removal), 15U);
  EXPECT_EQ(queue.remove_finished(removal), 0U);
}

}  // namespace
}  // namespace leasehold
