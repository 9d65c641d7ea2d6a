#pragma once

#include <functional>
#include <memory>
#include <pqxx/pqxx>
#include <string>
#include <unordered_set>

#include "postgres/params.hpp"
#include "postgres/postgres_uri.hpp"
#include "postgres/statement.hpp"

namespace leasehold::inline v0::postgres {

/// One connection. For one thread at a time, but for interrupt().
class Connection {
 public:
  /// Throws Unavailable or ServerRefused.
  explicit Connection(const PostgresUri& uri);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Nothing was sent: the server had hung up before.
  struct Dead {};

  /// Runs one statement, which is a transaction of its own. Throws Dead, SqlRefused, or
  /// OutcomeUnknown if the connection was lost after it was sent.
  pqxx::result run(const Statement& statement, const Params& params);

  /// Runs `work` in one transaction and commits it. Throws what run() throws, or what `work` does.
  void transaction(const std::function<void(pqxx::transaction_base&)>& work);

  /// After a LISTEN: waits until something is notified, or until interrupt(). Throws Unavailable
  /// when the connection is lost.
  void wait_for_notification();

  /// False once it is lost, or no one can say what state it is in.
  bool usable() const { return !broken_ && connection_->is_open(); }

  /// Breaks the connection, from any thread: who waits for an answer is told at once.
  void interrupt() noexcept;

 private:
  bool hung_up() const noexcept;
  [[noreturn]] void raise(const std::exception& error);

  std::string where_;
  std::unique_ptr<pqxx::connection> connection_;
  std::unique_ptr<pqxx::quiet_errorhandler> silence_;  // a library does not print
  bool broken_ = false;
  bool keeps_plans_ = true;  // until a prepared statement is not where we left it
  std::unordered_set<std::string> prepared_;
  int socket_ = -1;  // a duplicate, so that interrupt() can not meet another file of that number
};

}  // namespace leasehold::inline v0::postgres
