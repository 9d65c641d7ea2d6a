#pragma once

#include <sqlite3.h>

#include <functional>
#include <leasehold/postgres.hpp>
#include <leasehold/sqlite.hpp>

#include "sqlite/tasks/sqlite_task_store.hpp"
#include "task_fixture.hpp"
#include "tests/support/temp_dir.hpp"

namespace leasehold {

/// Where the tasks of a test are.
enum class Store { postgres, sqlite_memory, sqlite_file };

inline std::string name_of(const ::testing::TestParamInfo<Store>& store) {
  switch (store.param) {
    case Store::postgres:
      return "postgres";
    case Store::sqlite_memory:
      return "sqlite_memory";
    case Store::sqlite_file:
      return "sqlite_file";
  }
  return "?";
}

/// Runs the tests of a fixture on every store.
#define LEASEHOLD_ON_EVERY_STORE(fixture) \
  INSTANTIATE_TEST_SUITE_P(               \
      Stores, fixture,                    \
      ::testing::Values(Store::postgres, Store::sqlite_memory, Store::sqlite_file), name_of)

/// The same where several processes have to see the tasks.
#define LEASEHOLD_BETWEEN_PROCESSES(fixture) \
  INSTANTIATE_TEST_SUITE_P(Stores, fixture,  \
                           ::testing::Values(Store::postgres, Store::sqlite_file), name_of)

/// A transaction of the test's own, in the database of the queue.
class OwnTransaction {
 public:
  explicit OwnTransaction(pqxx::transaction_base& in_postgres) : postgres_(&in_postgres) {}
  explicit OwnTransaction(sqlite3* in_sqlite) : sqlite_(in_sqlite) {}

  void execute(const std::string& sql) const {
    if (postgres_) {
      postgres_->exec(sql);
    } else if (sqlite3_exec(sqlite_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
      throw std::runtime_error(sqlite3_errmsg(sqlite_));
    }
  }
  template <class Tasks>
  auto enqueue_in(TaskQueue& queue, const Tasks& tasks) const {
    return postgres_ ? leasehold::enqueue_in(*postgres_, queue, tasks)
                     : leasehold::enqueue_in(sqlite_, queue, tasks);
  }
  template <class TaskOrLease>
  void complete_in(TaskOrLease& task, std::string_view result = {}) const {
    postgres_ ? leasehold::complete_in(*postgres_, task, result)
              : leasehold::complete_in(sqlite_, task, result);
  }
  void fence(std::string_view resource, FencingToken token) const {
    postgres_ ? leasehold::fence(*postgres_, resource, token)
              : leasehold::fence(sqlite_, resource, token);
  }

 private:
  pqxx::transaction_base* postgres_ = nullptr;
  sqlite3* sqlite_ = nullptr;
};

/// A connection of the test's own to a file; what it leaves open is rolled back.
struct CloseSqlite {
  void operator()(sqlite3* handle) const { sqlite3_close(handle); }
};
using SqliteConnection = std::unique_ptr<sqlite3, CloseSqlite>;
inline SqliteConnection connect_to(const std::string& path) {
  sqlite3* handle = nullptr;
  sqlite3_open(path.c_str(), &handle);
  sqlite3_busy_timeout(handle, 60'000);
  return SqliteConnection{handle};
}

/// Runs statements in SQLite; returns the rows of the last one, columns separated by |. There
/// leasehold.tasks is called task_queue.
inline std::string run_sql(sqlite3* connection, std::string statements) {
  const std::string name = "leasehold.tasks";
  for (std::size_t at; (at = statements.find(name)) != std::string::npos;) {
    statements.replace(at, name.size(), "task_queue");
  }
  std::string text;
  const auto add_row = [](void* to, int columns, char** values, char**) {
    std::string& all = *static_cast<std::string*>(to);
    if (!all.empty()) all += '\n';
    for (int i = 0; i < columns; ++i)
      all += (i == 0 ? "" : "|") + std::string(values[i] ? values[i] : "");
    return 0;
  };
  if (sqlite3_exec(connection, statements.c_str(), add_row, &text, nullptr) != SQLITE_OK) {
    throw std::runtime_error(statements + ": " + sqlite3_errmsg(connection));
  }
  return text;
}

/// Empty tables for each test, in the store that is its parameter.
class EveryStoreTest : public ::testing::TestWithParam<Store> {
 protected:
  EveryStoreTest() {
    uri_ = uri_of(GetParam(), dir_);
    if (GetParam() == Store::postgres) {
      Postgres::sql("SET client_min_messages = warning; DROP SCHEMA IF EXISTS leasehold CASCADE");
      migrate(uri_);
    } else {
      outside_ = sqlite::open_database(*sqlite::parse_sqlite_uri(uri_), sqlite::open_options({}));
    }
  }
  ~EveryStoreTest() override { outside_.reset(); }

  static bool in_postgres() { return GetParam() == Store::postgres; }
  static bool in_memory() { return GetParam() == Store::sqlite_memory; }
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
  static int count(const std::string& condition) {
    return std::stoi(sql("SELECT count(*) FROM leasehold.tasks WHERE " + condition));
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
  struct Postgres : TaskTest {
    using TaskTest::sql;
    using TaskTest::uri;
    using TaskTest::uri_as;
    using TaskTest::uri_with;
    void TestBody() override {}
  };

  static std::string uri_of(Store store, const testing::TempDir& dir) {
    static int number = 0;
    if (store == Store::postgres) return Postgres::uri();
    if (store == Store::sqlite_memory) return "sqlite::memory:test" + std::to_string(++number);
    return "sqlite:" + (dir.path() / "tasks.db").string();
  }
  static void expire_where(const std::string& condition) {
    sql(in_postgres()
            ? "UPDATE leasehold.tasks SET lease_expiry = now() - interval '1 s' WHERE "
              "state = 'leased' AND " +
                  condition
            : "UPDATE task_queue SET lease_deadline = 1 WHERE state = 'leased' AND " + condition);
  }

  testing::TempDir dir_;
  static inline std::string uri_;
  static inline std::shared_ptr<sqlite::Database> outside_;
};

}  // namespace leasehold
