#include "sqlite_book.hpp"

#include <sqlite3.h>

#include <initializer_list>
#include <string_view>
#include <vector>

#include "demo_sql.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/sqlite.hpp"

namespace leasehold::cli {
namespace {

using Row = std::vector<std::int64_t>;

[[noreturn]] void fail(sqlite3* db) {
  throw Error(std::string("the demo's tables: ") + sqlite3_errmsg(db));
}

/// Runs one statement; returns its first row, or nothing.
Row run(sqlite3* db, std::string_view sql, std::initializer_list<std::int64_t> values = {}) {
  sqlite3_stmt* prepared = nullptr;
  if (sqlite3_prepare_v2(db, sql.data(), static_cast<int>(sql.size()), &prepared, nullptr) !=
      SQLITE_OK) {
    fail(db);
  }
  const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(prepared, sqlite3_finalize);
  int place = 0;
  for (const std::int64_t value : values) {
    // By name: SQLite numbers $1, $2, … in the order in which they appear.
    const std::string name = "$" + std::to_string(++place);
    sqlite3_bind_int64(prepared, sqlite3_bind_parameter_index(prepared, name.c_str()), value);
  }
  const int answer = sqlite3_step(prepared);
  if (answer != SQLITE_ROW && answer != SQLITE_DONE) fail(db);
  Row row;
  if (answer == SQLITE_ROW) {
    for (int i = 0; i < sqlite3_column_count(prepared); ++i) {
      row.push_back(sqlite3_column_int64(prepared, i));
    }
  }
  return row;
}

class SqliteBook final : public Book {
 public:
  explicit SqliteBook(TaskQueue& queue) : queue_(queue) {}

  void create(std::int64_t accounts) override {
    transact(queue_, [&](sqlite3* db) {
      const std::string script(demo_sql::create_sqlite.text);
      if (sqlite3_exec(db, script.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail(db);
      for (std::int64_t account = 0; account < accounts; ++account) {
        run(db, demo_sql::open_account.text, {account});
      }
    });
  }

  std::int64_t balance(std::int64_t account, FencingToken token) override {
    std::int64_t balance = 0;
    transact(queue_, [&](sqlite3* db) {
      fence(db, resource(account), token);
      balance = run(db, demo_sql::balance.text, {account}).at(0);
    });
    return balance;
  }

  void book(Task& task, const Booking& booking) override {
    transact(queue_, [&](sqlite3* db) {
      fence(db, resource(booking.account), booking.token);
      run(db, demo_sql::set_balance.text, {booking.account, booking.balance});
      run(db, demo_sql::add_booking.text,
          {task.id().value, booking.account, static_cast<std::int64_t>(booking.token.value)});
      complete_in(db, task);
    });
  }

  void note(TaskLease& lease) override {
    transact(queue_, [&](sqlite3* db) {
      run(db, demo_sql::add_note.text, {lease.id().value});
      complete_in(db, lease);
    });
  }

  Totals totals() override {
    Row row;
    transact(queue_, [&](sqlite3* db) { row = run(db, demo_sql::totals.text); });
    return {static_cast<std::uint64_t>(row.at(0)), static_cast<std::uint64_t>(row.at(1)),
            static_cast<std::uint64_t>(row.at(2)), row.at(3),
            static_cast<std::uint64_t>(row.at(4))};
  }

 private:
  TaskQueue& queue_;
};

}  // namespace

std::unique_ptr<Book> open_sqlite_book(TaskQueue& queue) {
  return std::make_unique<SqliteBook>(queue);
}

}  // namespace leasehold::cli
