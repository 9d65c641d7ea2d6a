#pragma once

#include <pqxx/pqxx>
#include <string>

#include "leasehold/errors.hpp"
#include "postgres/postgres_errors.hpp"
#include "postgres/pqxx_bridge.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {

/// Our texts are UTF-8. Throws InvalidArgument if the server would take them for something else,
/// and store them garbled. Costs no round trip: the server reports each change to libpq.
inline void check_client_encoding(const pqxx::transaction_base& transaction) {
  if (!transaction.conn().is_open()) return;  // then the statement says so
  const std::string encoding = transaction.conn().get_client_encoding();
  if (encoding == "UTF8" || encoding == "SQL_ASCII") return;
  throw InvalidArgument(
      "the client_encoding of the caller's transaction must be UTF8 or SQL_ASCII, got " + encoding);
}

/// Runs `work(pqxx::transaction_base&)` as a part of the caller's transaction, and translates what
/// libpqxx throws.
template <typename Work>
auto in_transaction_of_caller(pqxx::transaction_base& transaction, Work&& work) {
  try {
    return work(transaction);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (!transaction.conn().is_open() ||
        dynamic_cast<const pqxx::broken_connection*>(&error) != nullptr) {
      const auto words = std::string("the transaction's connection was lost: ") + error.what();
      // A nontransaction commits each statement by itself, and may have done so.
      if (dynamic_cast<pqxx::nontransaction*>(&transaction)) throw OutcomeUnknown(words);
      // Otherwise the caller commits later: nothing can have been committed.
      throw Unavailable(words);
    }
    const std::string state = sqlstate_of(error);
    // Memory ran out, or something else went wrong here and not on the server.
    if (state.empty() && dynamic_cast<pqxx::nontransaction*>(&transaction)) {
      throw OutcomeUnknown(std::string("in the caller's transaction: ") + error.what());
    }
    if (state == sqlstate::stale_fencing_token) throw StaleToken(error.what());
    throw explain(state, error.what(), "in the caller's transaction");
  }
}

/// The same for a transaction that check_callers() has accepted.
template <typename Work>
auto in_transaction_of_caller(const CallersTransaction& transaction, Work&& work) {
  return in_transaction_of_caller(*std::get<pqxx::transaction_base*>(transaction), work);
}

}  // namespace leasehold::inline v0::postgres
