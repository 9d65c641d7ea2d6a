#pragma once

#include <gtest/gtest.h>

#include <barrier>
#include <filesystem>
#include <fstream>
#include <leasehold/tasks.hpp>
#include <map>
#include <pqxx/pqxx>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.hpp"
#include "tests/support/postgres_server.hpp"

namespace leasehold {

using namespace std::chrono_literals;
using testing::eventually;
using testing::shared_postgres;

/// A file or folder of sql/.
inline std::filesystem::path sql_path(const std::string& name) {
  return std::filesystem::path(LEASEHOLD_SOURCE_DIR) / "sql" / name;
}

/// The text of a file of sql/.
inline std::string sql_file(const std::string& name) {
  std::ifstream file(sql_path(name));
  if (!file) throw std::runtime_error("no file sql/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The statements of a file of sql/, by their names. See cmake/EmbedText.cmake.
inline std::map<std::string, std::string> sql_statements(const std::string& file) {
  std::map<std::string, std::string> statements;
  std::istringstream lines(sql_file(file));
  std::string* current = nullptr;
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view mark = "-- name: ";
    if (line.starts_with(mark)) {
      current = &statements[line.substr(mark.size())];
    } else if (current != nullptr) {
      *current += line + "\n";
    }
  }
  return statements;
}

/// Runs `work(i)` in n threads that start together. What one throws fails the test.
template <typename Work>
void together(int n, Work work) {
  std::barrier start(n);
  std::vector<std::jthread> threads;
  for (int i = 0; i < n; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      try {
        work(i);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "thread " << i << ": " << error.what();
      }
    });
  }
}

/// Empty tables for each test, in a database of this program.
class TaskTest : public ::testing::Test {
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

}  // namespace leasehold
