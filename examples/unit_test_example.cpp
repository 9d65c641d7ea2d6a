// Tests of your own code that uses locks and tasks, without a server: each test has its own stores
// in memory.
#include <gtest/gtest.h>

#include <leasehold/locks.hpp>
#include <leasehold/tasks.hpp>
#include <string>

namespace {

// --- Your code -----------------------------------------------------------------------------------

/// Pays invoices, each in one process at a time, and leaves the receipts to a worker.
class Cashier {
 public:
  Cashier(leasehold::LockClient& locks, leasehold::TaskQueue& tasks)
      : locks_(locks), tasks_(tasks) {}

  /// False if another process is paying this invoice.
  bool pay(const std::string& invoice) {
    auto lock =
        locks_.acquire("invoice:" + invoice, {.on_conflict = leasehold::OnConflict::fail_fast});
    if (!lock) return false;
    ++paid;
    tasks_.enqueue({.type = "receipt", .payload = '"' + invoice + '"'});
    return true;
  }

  int paid = 0;

 private:
  leasehold::LockClient& locks_;
  leasehold::TaskQueue& tasks_;
};

// --- Its test ------------------------------------------------------------------------------------

class CashierTest : public ::testing::Test {
 protected:
  // Private, and gone with the test. In production: "redis://…" and "postgresql://…".
  leasehold::LockClient locks{"sqlite::memory:"};
  leasehold::TaskQueue tasks{"sqlite::memory:"};
  Cashier cashier{locks, tasks};
};

TEST_F(CashierTest, PaysAnInvoice) {
  EXPECT_TRUE(cashier.pay("42"));
  EXPECT_EQ(cashier.paid, 1);
  EXPECT_FALSE(locks.status("invoice:42"));  // the lock was released
}

TEST_F(CashierTest, LeavesAnInvoiceAloneThatSomebodyElsePays) {
  const auto somebody_else = locks.acquire("invoice:42");
  EXPECT_FALSE(cashier.pay("42"));
  EXPECT_TRUE(cashier.pay("43"));
  EXPECT_EQ(cashier.paid, 1);
}

TEST_F(CashierTest, LeavesTheReceiptToAWorker) {
  cashier.pay("42");
  auto leases = tasks.lease({.types = {"receipt"}});
  ASSERT_EQ(leases.size(), 1U);
  EXPECT_EQ(leases[0].payload(), "\"42\"");
  EXPECT_EQ(leases[0].complete(), leasehold::LeaseWrite::accepted);
  EXPECT_TRUE(tasks.lease({.types = {"receipt"}}).empty());
}

TEST(CashierInTwoPlacesTest, OnlyOneOfThemPays) {
  // With a name, both clients see the same locks, as two processes would.
  leasehold::LockClient here{"sqlite::memory:two-places"};
  leasehold::LockClient there{"sqlite::memory:two-places"};
  leasehold::TaskQueue tasks{"sqlite::memory:two-places"};
  const auto held = there.acquire("invoice:42");
  EXPECT_FALSE(Cashier(here, tasks).pay("42"));
}

}  // namespace
