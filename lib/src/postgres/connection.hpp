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

/// One connection. For one thread at a time, except for interrupt().
class Connection {
 public:
  /// Throws Unavailable or ServerRefused.
  explicit Connection(const PostgresUri& uri);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Thrown if nothing was sent, because the server had closed the connection before.
  struct Dead {};

  /// Runs one statement, which is a transaction of its own. Throws Dead, SqlRefused, or
  /// OutcomeUnknown if the connection was lost after it was sent.
  pqxx::result run(const Statement& statement, const Params& params);

  /// Runs `work` in one transaction and commits it. Throws what run() throws, or what `work` does.
  void transaction(const std::function<void(pqxx::transaction_base&)>& work);

  /// After a LISTEN, waits for a notification or for interrupt(). Throws Unavailable when the
  /// connection is lost.
  void wait_for_notification();

  /// False once the connection is lost or its state is not known.
  bool usable() const { return !broken_ && connection_->is_open(); }

  /// Breaks the connection. A thread that waits for an answer gets an error at once. May be called
  /// from any thread.
  void interrupt() noexcept;

 private:
  bool hung_up() const noexcept;
  [[noreturn]] void raise(const std::exception& error);

  std::string where_;
  std::unique_ptr<pqxx::connection> connection_;
  std::unique_ptr<pqxx::quiet_errorhandler> silence_;  // a library does not print
  bool broken_ = false;
  bool keeps_plans_ = true;  // until a prepared statement turns out to be missing
  std::unordered_set<std::string> prepared_;
  int socket_ = -1;  // a duplicate, so that interrupt() cannot hit another file with that number
};

}  // namespace leasehold::inline v0::postgres
