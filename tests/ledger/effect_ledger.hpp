#pragma once

#include <cstdint>
#include <pqxx/connection_base>
#include <string>

namespace leasehold::testing {

// Where tasks have their effects, in the database of the queue. Each task has a number as its
// payload and as its unique key, and its effect is to write that number into the ledger.

/// Tables:
///   ledger    effects, without any constraint: an effect that happens twice is there twice
///   claims    the newest version of each task that was begun, and whether it had its effect; for
///             effects that are guarded by the version
///   refusals  tasks whose effect was refused because the lease was lost
void create_ledger(pqxx::connection_base& connection);

/// What must hold for the effects when all work is done.
struct LedgerTotals {
  std::int64_t tasks = 0;         ///< numbers from 0 on
  std::int64_t most_crashes = 0;  ///< that kills and outages explain
};

/// Returns a line for each rule that was broken.
std::string check_ledger(pqxx::connection_base& connection, const LedgerTotals& totals);

/// The only value that a query returns.
std::int64_t number_of(pqxx::connection_base& connection, const std::string& query);

}  // namespace leasehold::testing
