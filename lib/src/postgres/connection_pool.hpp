#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <pqxx/pqxx>
#include <string>
#include <thread>
#include <vector>

#include "leasehold/errors.hpp"
#include "postgres/connection.hpp"
#include "support/backoff.hpp"

namespace leasehold::inline v0::postgres {

/// A few connections shared by all threads, made when needed and again after a loss. Thread-safe.
class ConnectionPool {
 public:
  ConnectionPool(PostgresUri uri, const PostgresOptions& options);
  ~ConnectionPool();
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

  /// Runs one statement, a transaction of its own; again a few times if others were in the way.
  /// Throws Unavailable if it was not sent, OutcomeUnknown if it was and no answer came in time,
  /// SqlRefused if the server said no.
  pqxx::result run(const Statement& statement, const Params& params);

  /// How often a statement was run again.
  std::uint64_t retries() const noexcept { return retries_.load(std::memory_order_relaxed); }

  const std::string& where() const noexcept { return uri_.display; }

 private:
  using Clock = std::chrono::steady_clock;

  /// A connection in use, and until when its user may wait.
  struct Busy {
    Connection* connection;
    Clock::time_point deadline;
  };
  class Loan;

  std::unique_ptr<Connection> take(Clock::time_point deadline);
  void give_back(std::unique_ptr<Connection> connection) noexcept;
  std::unique_ptr<Connection> connect();
  pqxx::result run_once(const Statement& statement, const Params& params);
  void watch(const std::stop_token& stop);

  const PostgresUri uri_;
  const PostgresOptions options_;
  std::atomic<std::uint64_t> retries_{0};

  std::mutex mutex_;
  std::condition_variable_any freed_;
  std::condition_variable_any wake_watchdog_;
  // protected by mutex_
  std::vector<std::unique_ptr<Connection>> idle_;  // the last used one is used next
  std::vector<Busy> busy_;
  std::size_t taken_ = 0;  // connections in use or being made
  bool called_ = false;    // since the watchdog's last round
  bool watchdog_sleeps_ = false;
  Backoff backoff_;
  Clock::time_point next_attempt_;
  std::string last_error_;
  bool last_was_refusal_ = false;
  ServerRefused::Reason last_reason_ = ServerRefused::Reason::other;

  std::jthread watchdog_;  // last: it uses everything above
};

}  // namespace leasehold::inline v0::postgres
