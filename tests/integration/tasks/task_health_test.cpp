// TaskQueue::health(): how a queue fares, for the daemon's gauges.
#include <gtest/gtest.h>

#include "sqlite/database/machine_clock.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/postgres_tasks.hpp"
#include "tests/support/refusal_of.hpp"
#include "tests/support/shared_servers.hpp"
#include "tests/support/sqlite_connection.hpp"
#include "tests/support/task_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using Kind = SnapshotHolder::Kind;

/// On every store.
class TaskHealthTest : public OnEveryTaskStore {
 protected:
  /// Adds a row as it is.
  static void insert(const std::string& columns, const std::string& values) {
    const std::string now = seconds_ago(0);
    const std::string more = in_postgres() ? "" : ", created_at, updated_at";
    sql("INSERT INTO leasehold.tasks (payload, " + columns + more + ") VALUES ('{}', " + values +
        (in_postgres() ? "" : ", " + now + ", " + now) + ")");
  }

  TaskQueue queue{uri()};
};
ON_EVERY_STORE(TaskHealthTest);

/// What only PostgreSQL has.
class ServerHealthTest : public PostgresTaskTest {
 protected:
  TaskQueue queue{uri()};

  /// A connection that says its name.
  static pqxx::connection connect(const std::string& name) {
    return pqxx::connection{uri_with("application_name=" + name)};
  }
};

TEST_P(TaskHealthTest, AnEmptyQueueIsFine) {
  const QueueHealth health = queue.health();
  EXPECT_FALSE(health.oldest_ready);
  EXPECT_FALSE(health.oldest_expired);
  EXPECT_EQ(health.live_rows, 0U);
}

TEST_P(TaskHealthTest, TheOldestReadyTaskOfAllTypesAndPrioritiesIsFound) {
  const auto add = [](const std::string& type, int priority, long due) {
    insert("type, priority, run_at",
           "'" + type + "', " + std::to_string(priority) + ", " + seconds_ago(due));
  };
  add("b", 5, 10);
  add("b", 5, 20);
  add("a", -3, -3'600);  // for later
  EXPECT_GE(queue.health().oldest_ready, 20s);
  EXPECT_LT(queue.health().oldest_ready, 100s);
  add("b", -7, 200);
  EXPECT_GE(queue.health().oldest_ready, 200s);
  add("c", 0, 300);
  EXPECT_GE(queue.health().oldest_ready, 300s);
  add("a", -3, 400);
  EXPECT_GE(queue.health().oldest_ready, 400s);
  sql("UPDATE leasehold.tasks SET run_at = " + seconds_ago(-3'600));
  EXPECT_FALSE(queue.health().oldest_ready) << "none is due";
  for (const auto& task : queue.list()) queue.cancel(task.id);
  EXPECT_FALSE(queue.health().oldest_ready) << "none is pending";
}

TEST_P(TaskHealthTest, TheOldestExpiredLeaseIsFound) {
  const auto leased = [](const std::string& type, long ago) {
    const auto deadline = sqlite::since_boot() - std::chrono::seconds{ago};
    insert(in_postgres() ? "type, run_at, leased_at, state, leased_by, lease_expiry"
                         : "type, run_at, leased_at, state, leased_by, lease_deadline",
           "'" + type + "', " + seconds_ago(0) + ", " + seconds_ago(3'600) + ", 'leased', 'w', " +
               (in_postgres() ? seconds_ago(ago) : std::to_string(deadline.count())));
  };
  leased("t", -3'600);
  leased("t", 100);
  leased("u", 50);
  EXPECT_GE(queue.health().oldest_expired, 100s);
  EXPECT_LT(queue.health().oldest_expired, 200s);
  Recovery{queue}.run_once();
  EXPECT_FALSE(queue.health().oldest_expired);
}

TEST_F(ServerHealthTest, RowsAreTheServersEstimates) {
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

TEST_F(ServerHealthTest, ATransactionWithASnapshotHoldsVacuumBack) {
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

TEST_F(ServerHealthTest, ATransactionThatHasOnlyReadHarmsNobody) {
  auto connection = connect("idle-reader");
  pqxx::work idle{connection};
  idle.exec("SELECT 1");
  const auto holder = queue.health().oldest_snapshot;
  EXPECT_FALSE(holder && holder->name == "idle-reader");
}

TEST_F(ServerHealthTest, ATransactionThatHasWrittenHoldsVacuumBack) {
  auto connection = connect("idle-writer");
  pqxx::work idle{connection};
  idle.exec("INSERT INTO leasehold.tasks (type, payload) VALUES ('t', '{}')");
  const auto holder = queue.health().oldest_snapshot;
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->name, "idle-writer");
}

TEST_F(ServerHealthTest, OtherDatabasesDoNotMatter) {
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

TEST_F(ServerHealthTest, PreparedTransactionsAreSeen) {
  PostgresServer server{{.config_lines = {"max_prepared_transactions = 5"}}};
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

TEST_F(ServerHealthTest, AUserWithoutRightsOnOthersStillGetsTheRest) {
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

TEST_F(ServerHealthTest, WithoutTablesItIsNoSchema) {
  sql("DROP SCHEMA leasehold CASCADE");
  EXPECT_EQ(refusal_of([&] { queue.health(); }), ServerRefused::Reason::no_schema);
}

TEST_F(ServerHealthTest, WhereDoesNotSayThePassword) {
  const TaskQueue with_password{"postgresql://u:hunter2@localhost:5/app?sslmode=disable"};
  EXPECT_EQ(with_password.where(), "postgresql://localhost:5/app");
}

TEST_P(TaskHealthTest, ARemovalCanBeBounded) {
  queue.enqueue(std::vector<NewTask>(50, {.type = "t"}));
  auto leases = queue.lease({.types = {"t"}, .limit = 50});
  for (std::size_t i = 0; i < leases.size(); ++i) {
    i % 2 == 0 ? (void)leases[i].complete() : (void)leases[i].fail("no", Retry::never());
  }
  sql("UPDATE " + finished_tasks() + " SET finished_at = " + seconds_ago(86'400));
  const Removal removal{.completed = 1h, .dead = 1h, .chunk = 10, .limit = 15};
  EXPECT_EQ(queue.remove_finished(removal), 20U) << "whole chunks";
  EXPECT_EQ(queue.remove_finished(removal), 15U) << "five completed, then ten dead";
  EXPECT_EQ(queue.remove_finished(removal), 15U);
  EXPECT_EQ(queue.remove_finished(removal), 0U);
}

}  // namespace
}  // namespace leasehold::testing
