#pragma once

#include <gtest/gtest.h>

#include <leasehold/tasks.hpp>
#include <pqxx/pqxx>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/support/eventually.hpp"
#include "tests/support/shared_servers.hpp"

namespace leasehold::testing {

/// Empty tables for each test, in a PostgreSQL database of this process.
class PostgresTaskTest : public ::testing::Test {
 public:
  /// For sql(), after FROM: all tasks, finished ones too.
  static constexpr const char* every_task =
      "(SELECT id, version, type, state, priority, run_at, attempts, crash_count, leased_by, "
      "payload, progress, NULL AS result, last_error, xmin FROM leasehold.tasks UNION ALL "
      "SELECT id, version, type, state, priority, run_at, attempts, crash_count, leased_by, "
      "payload, progress, result, last_error, xmin FROM leasehold.finished_tasks) AS every_task";

 protected:
  void SetUp() override {
    // Much faster than a database for each test.
    sql("SET client_min_messages = warning; DROP SCHEMA IF EXISTS leasehold CASCADE");
    migrate(uri());
  }

  static const std::string& database() {
    static const std::string name = shared_postgres().create_fresh_database();
    return name;
  }
  static std::string uri() { return shared_postgres().uri(database()); }
  /// With an option of libpq.
  static std::string uri_with(const std::string& option) {
    return uri() + (uri().find('?') == std::string::npos ? "?" : "&") + option;
  }
  /// With the rights of another role, whatever way users have to prove who they are.
  static std::string uri_as(const std::string& role) {
    return uri_with("options=-crole%3D" + role);
  }
  /// Runs statements from outside; returns the rows of the last one, columns separated by |.
  static std::string sql(const std::string& statements) {
    static pqxx::connection connection{uri()};
    pqxx::nontransaction transaction{connection};
    std::string text;
    for (const auto& row : transaction.exec(statements)) {
      if (!text.empty()) text += '\n';
      for (pqxx::row::size_type i = 0; i < row.size(); ++i) {
        text += (i == 0 ? "" : "|") + std::string(row[i].c_str());
      }
    }
    return text;
  }

  /// As if the worker had been silent for long enough.
  static void expire(TaskId id) {
    sql("UPDATE leasehold.tasks SET lease_expiry = now() - interval '1 s' WHERE id = " +
        std::to_string(id.value));
  }

  static TaskLease lease_one(TaskQueue& queue, const std::string& type = "t",
                             const std::string& worker = "w") {
    auto leases = queue.lease({.types = {type}, .worker = worker});
    if (leases.size() != 1) {
      throw std::runtime_error("leased " + std::to_string(leases.size()) + " tasks instead of one");
    }
    return std::move(leases.front());
  }
};

}  // namespace leasehold::testing
