// Your own code under test, with locks and without a server: a store in memory for each test.
#include <gtest/gtest.h>

#include <leasehold/locks.hpp>
#include <string>

namespace {

// --- Your code -----------------------------------------------------------------------------------

/// Pays invoices, each by one process at a time.
class Cashier {
 public:
  explicit Cashier(leasehold::LockClient& locks) : locks_(locks) {}

  /// False if somebody else is at it.
  bool pay(const std::string& invoice) {
    auto lock =
        locks_.acquire("invoice:" + invoice, {.on_conflict = leasehold::OnConflict::fail_fast});
    if (!lock) return false;
    ++paid;
    return true;
  }

  int paid = 0;

 private:
  leasehold::LockClient& locks_;
};

// --- Its test ------------------------------------------------------------------------------------

class CashierTest : public ::testing::Test {
 protected:
  // Nobody else's: gone with the test. In production: "redis://…".
  leasehold::LockClient locks{"sqlite::memory:"};
  Cashier cashier{locks};
};

TEST_F(CashierTest, PaysAnInvoice) {
  EXPECT_TRUE(cashier.pay("42"));
  EXPECT_EQ(cashier.paid, 1);
  EXPECT_FALSE(locks.status("invoice:42"));  // the lock was given back
}

TEST_F(CashierTest, LeavesAnInvoiceAloneThatSomebodyElsePays) {
  const auto somebody_else = locks.acquire("invoice:42");
  EXPECT_FALSE(cashier.pay("42"));
  EXPECT_TRUE(cashier.pay("43"));
  EXPECT_EQ(cashier.paid, 1);
}

TEST(CashierInTwoPlacesTest, OnlyOneOfThemPays) {
  // A name instead: both clients see the same locks, as two processes would.
  leasehold::LockClient here{"sqlite::memory:two-places"};
  leasehold::LockClient there{"sqlite::memory:two-places"};
  const auto held = there.acquire("invoice:42");
  EXPECT_FALSE(Cashier{here}.pay("42"));
}

}  // namespace
