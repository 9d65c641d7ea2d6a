// Tasks without a server: in memory, for tests of your own code that take milliseconds, or in a
// file that survives the program.
//
//   embedded_task_example [sqlite:tasks.db]
#include <sqlite3.h>

#include <iostream>
#include <leasehold/sqlite.hpp>
#include <leasehold/tasks.hpp>
#include <stdexcept>
#include <string>

namespace {

void execute(sqlite3* db, const std::string& sql) {
  if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::runtime_error(sqlite3_errmsg(db));
  }
}

/// The code under test. It does not know where its tasks are kept.
class Payouts {
 public:
  explicit Payouts(leasehold::TaskQueue& tasks) : tasks_(tasks) {
    leasehold::transact(tasks_, [](sqlite3* db) {
      execute(db, "CREATE TABLE IF NOT EXISTS payouts (account INTEGER, cents INTEGER)");
    });
  }

  void order(int account) {
    const std::string number = std::to_string(account);
    tasks_.enqueue({.type = "payout", .payload = number, .unique_key = "payout:" + number});
  }

  /// Commits the payout and the completion of its task together, or neither.
  void pay(leasehold::Task& task) {
    leasehold::transact(tasks_, [&](sqlite3* db) {
      execute(db, "INSERT INTO payouts VALUES (" + task.payload() + ", 100)");
      leasehold::complete_in(db, task);  // throws LeaseLost if it came too late
    });
  }

 private:
  leasehold::TaskQueue& tasks_;
};

/// Orders two payouts, one of them twice, and has a worker do them.
int run(const std::string& uri) {
  leasehold::TaskQueue tasks{uri};
  Payouts payouts{tasks};
  payouts.order(1);
  payouts.order(2);
  payouts.order(2);

  std::stop_source done;
  leasehold::Worker worker{tasks};
  worker.on("payout", [&](leasehold::Task& task) {
    payouts.pay(task);
    const auto counts = tasks.counts();  // by type and state
    const bool all = counts.size() == 1 && counts[0].state == leasehold::TaskState::completed;
    if (all) done.request_stop();
  });
  worker.run(done.get_token());
  std::cout << "paid " << worker.stats().completed << " from " << tasks.where() << "\n";
  return worker.stats().completed == 2 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "sqlite::memory:");
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
