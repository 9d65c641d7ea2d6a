// Commits the effect of a task together with its completion. A worker that was too slow, and whose
// task another worker has taken over, gets LeaseLost, and its effect is rolled back.
//
//   exactly_once_example postgresql://localhost/app
#include <iostream>
#include <leasehold/postgres.hpp>
#include <leasehold/tasks.hpp>
#include <pqxx/pqxx>

using namespace std::chrono_literals;

namespace {

void pay_out(pqxx::connection& connection, leasehold::TaskLease& lease) {
  pqxx::work transaction{connection};
  transaction.exec("UPDATE accounts SET balance = balance + 100 WHERE id = 1");
  leasehold::complete_in(transaction, lease);
  transaction.commit();
}

/// Waits until the lease has expired and was recovered, like a worker that hangs.
void be_slow(leasehold::TaskQueue& tasks) {
  leasehold::Recovery recovery{tasks};
  while (recovery.run_once().tasks.empty()) {
  }
}

int run(const char* uri) {
  leasehold::migrate(uri);
  leasehold::TaskQueue tasks{uri};
  pqxx::connection connection{uri};
  pqxx::nontransaction{connection}.exec(
      "CREATE TABLE accounts (id bigint, balance bigint); INSERT INTO accounts VALUES (1, 0)");
  tasks.enqueue({.type = "payout"});

  auto slow = tasks.lease({.types = {"payout"}, .duration = 100ms, .worker = "slow"});
  be_slow(tasks);
  auto quick = tasks.lease({.types = {"payout"}, .duration = 30s, .worker = "quick"});

  pay_out(connection, quick.at(0));
  try {
    pay_out(connection, slow.at(0));
  } catch (const leasehold::LeaseLost& lost) {
    std::cout << "rolled back: " << lost.what() << "\n";
  }
  const auto balance =
      pqxx::nontransaction{connection}.exec("SELECT balance FROM accounts")[0][0].as<int>();
  std::cout << "paid " << balance << "\n";
  return balance == 100 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: exactly_once_example postgresql://host/database\n";
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
