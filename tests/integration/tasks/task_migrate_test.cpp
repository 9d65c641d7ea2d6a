// Migrations, and what the errors of a database that is not as it should be look like.
#include <gtest/gtest.h>

#include <atomic>
#include <leasehold/locks.hpp>
#include <optional>

#include "harness/process.hpp"
#include "harness/temp_dir.hpp"
#include "tests/support/postgres_tasks.hpp"
#include "tests/support/refusal_of.hpp"
#include "tests/support/shared_servers.hpp"
#include "tests/support/sql_files.hpp"
#include "tests/support/sqlite_connection.hpp"
#include "tests/support/task_store.hpp"
#include "tests/support/test_namespace.hpp"
#include "tests/support/together.hpp"

namespace leasehold::testing {
namespace {

using Reason = ServerRefused::Reason;

/// What holds wherever the tables are.
class MigrateTest : public PostgresTaskTest, public ::testing::WithParamInterface<StoreKind> {
 public:
  static constexpr StoreKind server_kind = StoreKind::postgres;

 protected:
  void SetUp() override {
    if (GetParam() == StoreKind::postgres) {
      sql("SET client_min_messages = warning; DROP SCHEMA IF EXISTS leasehold CASCADE");
    } else if (GetParam() == StoreKind::sqlite_memory) {
      keeper_.emplace(uri());
    }
  }
  std::string uri() const {
    if (GetParam() == StoreKind::postgres) return PostgresTaskTest::uri();
    if (GetParam() == StoreKind::sqlite_memory) return "sqlite::memory:migrated";
    return "sqlite:" + (dir_.path() / "tasks.db").string();
  }
  /// As if a later Leasehold had been here.
  void come_from_the_future() const {
    if (GetParam() == StoreKind::postgres) {
      sql("INSERT INTO leasehold.migrations (version, name, needs) "
          "VALUES (9999, 'from the future', 9998)");
      return;
    }
    const auto database =
        sqlite::open_database(*sqlite::parse_sqlite_uri(uri()), sqlite::open_options({}));
    database->write([](sqlite::Connection& connection) {
      connection.execute_script("UPDATE leasehold_schema SET version = 9999 WHERE kind = 'tasks'");
    });
  }

 private:
  const TempDir dir_;
  std::optional<LockClient> keeper_;  // of the memory, in which it has no tasks
};
ON_EVERY_STORE(MigrateTest);

TEST_P(MigrateTest, MakesTheTablesOnce) {
  const auto first = migrate(uri());
  EXPECT_EQ(first.from, 0);
  EXPECT_GE(first.to, 1);
  EXPECT_EQ(first.applied.size(), std::size_t(first.to));
  const auto second = migrate(uri());
  EXPECT_EQ(second.from, first.to);
  EXPECT_TRUE(second.applied.empty());
}

TEST_P(MigrateTest, SeveralAtOnce) {
  std::atomic<int> applied{0};
  together(8, [&](int) {
    if (!migrate(uri()).applied.empty()) ++applied;
  });
  EXPECT_EQ(applied, 1);
  if (GetParam() != StoreKind::postgres) return;
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.migrations WHERE version = 1"), "1");
}

TEST_P(MigrateTest, ANewerSchemaIsRefused) {
  migrate(uri());
  come_from_the_future();
  EXPECT_EQ(refusal_of([&] { migrate(uri()); }, "version 9999"), Reason::newer_schema);
}

class TaskMigrateTest : public PostgresTaskTest {
 protected:
  void SetUp() override {
    sql("SET client_min_messages = warning; DROP SCHEMA IF EXISTS leasehold CASCADE;"
        "DROP SCHEMA IF EXISTS other CASCADE");
  }

  /// The uri of the database for another user.
  static std::string uri_of(const std::string& user) { return uri() + "?user=" + user; }
};

TEST_F(TaskMigrateTest, TablesOfALaterVersionAreLeftAloneIfThisOneCanWorkWithThem) {
  const int newest = migrate(uri()).to;
  sql("INSERT INTO leasehold.migrations (version, name, needs) VALUES (9999, 'more', " +
      std::to_string(newest) + ")");
  const MigrateReport report = migrate(uri());
  EXPECT_EQ(report.from, 9999);
  EXPECT_EQ(report.to, 9999);
  EXPECT_TRUE(report.applied.empty());
}

TEST_F(TaskMigrateTest, AnotherSchema) {
  EXPECT_EQ(migrate(uri(), {.schema = "other"}).from, 0);
  TaskQueue queue{uri(), {.postgres = {.schema = "other"}}};
  const auto task = queue.enqueue({.type = "t"});
  lease_one(queue).complete();
  EXPECT_EQ(queue.get(task.id)->state, TaskState::completed);
  EXPECT_EQ(sql("SELECT to_regnamespace('leasehold') IS NULL"), "t");
}

TEST_F(TaskMigrateTest, PlainPsqlDoesTheSame) {
  shared_postgres().run_sql("BEGIN;\n" + sql_file("migrations/0001_tasks.sql") + "COMMIT;",
                            database());
  EXPECT_GE(migrate(uri()).from, 1);
  TaskQueue queue{uri()};
  queue.enqueue({.type = "t"});
  lease_one(queue).complete();
}

TEST_F(TaskMigrateTest, ASchemaThatIsGivenNeedsNoRightOnTheDatabase) {
  sql("DROP ROLE IF EXISTS app; CREATE ROLE app LOGIN; CREATE SCHEMA leasehold AUTHORIZATION app");
  EXPECT_EQ(migrate(uri_of("app")).from, 0);
  TaskQueue queue{uri_of("app")};
  queue.enqueue({.type = "t"});
  sql("DROP OWNED BY app; DROP ROLE app");
}

TEST_F(TaskMigrateTest, MissingTablesSayRunMigrate) {
  TaskQueue queue{uri()};
  EXPECT_EQ(refusal_of([&] { queue.enqueue({.type = "t"}); }, "run migrate"), Reason::no_schema);
  EXPECT_EQ(refusal_of([&] { queue.lease({.types = {"t"}}); }, "run migrate"), Reason::no_schema);
  migrate(uri());
  queue.enqueue({.type = "t"});
}

TEST_F(TaskMigrateTest, AMissingRightIsNamed) {
  migrate(uri());
  sql("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN; GRANT USAGE ON SCHEMA leasehold TO "
      "guest");
  TaskQueue queue{uri_of("guest")};
  EXPECT_EQ(refusal_of([&] { queue.enqueue({.type = "t"}); }, "permission denied"),
            Reason::permission);
  sql("DROP OWNED BY guest; DROP ROLE guest");
}

TEST_F(TaskMigrateTest, AReadOnlyServerIsNamed) {
  migrate(uri());
  TaskQueue queue{uri() + "?options=-c%20default_transaction_read_only%3Don"};
  EXPECT_EQ(refusal_of([&] { queue.enqueue({.type = "t"}); }, "read-only"), Reason::read_only);
  EXPECT_FALSE(queue.get(TaskId{1})) << "reading is allowed";
}

TEST_F(TaskMigrateTest, AnUnknownUserOrDatabaseIsNamed) {
  TaskQueue user{uri_of("nobody_we_know")};
  EXPECT_EQ(refusal_of([&] { user.get(TaskId{1}); }, "nobody_we_know"), Reason::authentication);
  TaskQueue missing{shared_postgres().uri("no_such_database")};
  EXPECT_EQ(refusal_of([&] { missing.get(TaskId{1}); }, "no_such_database"), Reason::other);
}

}  // namespace
}  // namespace leasehold::testing
