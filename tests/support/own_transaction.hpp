#pragma once

#include <sqlite3.h>

#include <leasehold/postgres.hpp>
#include <leasehold/sqlite.hpp>
#include <pqxx/pqxx>
#include <stdexcept>
#include <string>
#include <string_view>

namespace leasehold::testing {

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

}  // namespace leasehold::testing
