#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <leasehold/tasks.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/temp_dir.hpp"
#include "tests/support/own_transaction.hpp"
#include "tests/support/postgres_tasks.hpp"
#include "tests/support/sqlite_connection.hpp"
#include "tests/support/store_kind.hpp"
#include "tests/support/test_namespace.hpp"

#include "sqlite/tasks/sqlite_task_store.hpp"

namespace leasehold::testing {

/// Empty tables for each test, in the store that is its parameter. See store_kind.hpp.
class OnEveryTaskStore : public ::testing::TestWithParam<StoreKind> {
 public:
  static constexpr StoreKind server_kind = StoreKind::postgres;

 protected:
  OnEveryTaskStore() {
    uri_ = uri_of(GetParam(), dir_);
    if (GetParam() == StoreKind::postgres) {
      Postgres::sql("SET client_min_messages = warning; DROP SCHEMA IF EXISTS leasehold CASCADE");
      migrate(uri_);
    } else {
      outside_ = sqlite::open_database(*sqlite::parse_sqlite_uri(uri_), sqlite::open_options({}));
    }
  }
  ~OnEveryTaskStore() override { outside_.reset(); }

  static bool in_postgres() { return GetParam() == StoreKind::postgres; }
  static bool in_memory() { return GetParam() == StoreKind::sqlite_memory; }
  static const std::string& uri() { return uri_; }

  /// With an option of libpq, or with the rights of another role: of PostgreSQL.
  static std::string uri_with(const std::string& option) { return Postgres::uri_with(option); }
  static std::string uri_as(const std::string& role) { return Postgres::uri_as(role); }

  /// Runs statements from outside, as run_sql() does.
  static std::string sql(const std::string& statements) {
    if (!outside_) return Postgres::sql(statements);
    return outside_->write(
        [&](sqlite::Connection& connection) { return run_sql(connection.handle(), statements); });
  }
  /// For sql(): whether a column is null, as t or f.
  static std::string is_null(const std::string& column) {
    return "CASE WHEN " + column + " IS NULL THEN 't' ELSE 'f' END";
  }
  /// For sql(), after FROM: all tasks, finished ones too.
  static std::string every_task() {
    return in_postgres() ? PostgresTaskTest::every_task : "leasehold.tasks";
  }
  static int count(const std::string& condition) {
    return std::stoi(sql("SELECT count(*) FROM " + every_task() + " WHERE " + condition));
  }
  /// For sql(), after UPDATE or INSERT INTO: the table of tasks that have ended.
  static std::string finished_tasks() {
    return in_postgres() ? "leasehold.finished_tasks" : "leasehold.tasks";
  }

  /// As if the worker had been silent for long enough.
  static void expire(TaskId id) { expire_where("id = " + std::to_string(id.value)); }
  static void expire_all() { expire_where("true"); }
  /// As if it were time for every pending task.
  static void make_due() {
    sql(in_postgres() ? "UPDATE leasehold.tasks SET run_at = now() - interval '1 s'"
                      : "UPDATE task_queue SET run_at = " + seconds_ago(1));
  }
  /// A time in the store's own terms, for sql().
  static std::string seconds_ago(long seconds) {
    if (in_postgres()) return "now() - interval '" + std::to_string(seconds) + " s'";
    const auto then = std::chrono::system_clock::now() - std::chrono::seconds{seconds};
    return std::to_string(
        std::chrono::duration_cast<std::chrono::microseconds>(then.time_since_epoch()).count());
  }

  /// Runs `work` in a transaction in the database of the queue, and commits it unless it throws.
  static void in_transaction(TaskQueue& queue,
                             const std::function<void(const OwnTransaction&)>& work) {
    if (in_postgres()) {
      pqxx::connection connection{uri()};
      pqxx::work transaction{connection};
      work(OwnTransaction{transaction});
      transaction.commit();
    } else if (in_memory()) {
      transact(queue, [&](sqlite3* connection) { work(OwnTransaction{connection}); });
    } else {
      const auto connection = connect();
      const OwnTransaction transaction{connection.get()};
      transaction.execute("BEGIN IMMEDIATE");
      work(transaction);  // what it leaves open is rolled back with the connection
      transaction.execute("COMMIT");
    }
  }
  /// Another connection to the file.
  static SqliteConnection connect() {
    return connect_to(uri().substr(std::string("sqlite:").size()));
  }

  static TaskLease lease_one(TaskQueue& queue, const std::string& type = "t",
                             const std::string& worker = "w") {
    auto leases = queue.lease({.types = {type}, .worker = worker});
    if (leases.size() != 1) {
      throw std::runtime_error("leased " + std::to_string(leases.size()) + " tasks instead of one");
    }
    return std::move(leases.front());
  }

 private:
  /// The shared PostgreSQL, as other tests use it.
  struct Postgres : PostgresTaskTest {
    using PostgresTaskTest::sql;
    using PostgresTaskTest::uri;
    using PostgresTaskTest::uri_as;
    using PostgresTaskTest::uri_with;
    void TestBody() override {}
  };

  static std::string uri_of(StoreKind store, const TempDir& dir) {
    static int number = 0;
    if (store == StoreKind::postgres) return Postgres::uri();
    if (store == StoreKind::sqlite_memory) return "sqlite::memory:test" + std::to_string(++number);
    return "sqlite:" + (dir.path() / "tasks.db").string();
  }
  static void expire_where(const std::string& condition) {
    sql(in_postgres()
            ? "UPDATE leasehold.tasks SET lease_expiry = now() - interval '1 s' WHERE "
              "state = 'leased' AND " +
                  condition
            : "UPDATE task_queue SET lease_deadline = 1 WHERE state = 'leased' AND " + condition);
  }

  TempDir dir_;
  static inline std::string uri_;
  static inline std::shared_ptr<sqlite::Database> outside_;
};

}  // namespace leasehold::testing
