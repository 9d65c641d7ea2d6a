#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <pqxx/pqxx>
#include <string>
#include <thread>
#include <vector>

#include "leasehold/errors.hpp"
#include "postgres/connection.hpp"
#include "support/backoff.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0::postgres {

/// A few connections that all threads share. They are made when needed, and again after a loss.
///
/// A backend that answers neither a statement nor its cancellation is abandoned, and keeps its
/// place in the pool until it answers or its connection ends. One place can always be used, because
/// another backend, or another server, may well answer. If that one is abandoned too, a pause comes
/// before the next attempt, which doubles with each. Thread-safe.
class ConnectionPool {
 public:
  ConnectionPool(PostgresUri uri, PostgresOptions options);
  ~ConnectionPool();
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

  /// Runs one statement in a transaction of its own, and repeats it a few times after deadlocks and
  /// serialization failures. If it takes too long, it is cancelled. Throws Unavailable if it was
  /// not sent or was cancelled, OutcomeUnknown if it was sent and the server did not answer the
  /// cancellation either, and SqlRefused if the server refused it.
  pqxx::result run(const Statement& statement, const Params& params);

  /// How often a statement was repeated.
  std::uint64_t retries() const noexcept { return retries_.load(std::memory_order_relaxed); }

  const std::string& where() const noexcept { return uri_.display; }

 private:
  using Clock = std::chrono::steady_clock;

  /// A connection in use, and until when its user waits.
  struct Busy {
    Connection* connection;
    Clock::time_point deadline;
    std::optional<Clock::time_point> give_up = std::nullopt;  ///< set once it was cancelled
  };
  struct Idle {
    std::unique_ptr<Connection> connection;
    Clock::time_point since;
  };
  class Loan;

  std::unique_ptr<Connection> take(Clock::time_point deadline);
  std::size_t places_lost() const LEASEHOLD_REQUIRES(mutex_);
  void abandon(AbandonedBackend backend) noexcept LEASEHOLD_REQUIRES(mutex_);
  void forget_those_done() noexcept LEASEHOLD_REQUIRES(mutex_);
  void give_back(std::unique_ptr<Connection> connection) noexcept;
  void close_idle(std::size_t host) noexcept;
  void close_unused() noexcept;
  Clock::time_point first_close() const LEASEHOLD_REQUIRES(mutex_);
  template <typename Condition>
  void close_if(Condition&& condition) noexcept;
  std::unique_ptr<Connection> connect();
  void check_may_connect() const LEASEHOLD_REQUIRES(mutex_);
  void watch(const std::stop_token& stop);
  void wait_for_work(ThreadLock& lock, const std::stop_token& stop) LEASEHOLD_REQUIRES(mutex_);
  bool has_work() const LEASEHOLD_REQUIRES(mutex_);
  void enforce_deadlines(Clock::time_point now) LEASEHOLD_REQUIRES(mutex_);

  const PostgresUri uri_;
  const PostgresOptions options_;
  const std::chrono::milliseconds grace_;  // for the answer to a cancellation
  std::atomic<std::uint64_t> retries_{0};

  ThreadMutex mutex_;
  StoppableCondition freed_;
  StoppableCondition wake_watchdog_;
  // The one that was used last is used next.
  std::vector<Idle> idle_ LEASEHOLD_GUARDED_BY(mutex_);
  std::vector<Busy> busy_ LEASEHOLD_GUARDED_BY(mutex_);
  // Connections in use, being made, or being closed.
  std::size_t taken_ LEASEHOLD_GUARDED_BY(mutex_) = 0;
  // Their number is limited by the pauses before connections that come on top.
  std::vector<AbandonedBackend> abandoned_ LEASEHOLD_GUARDED_BY(mutex_);
  Backoff pause_on_top_ LEASEHOLD_GUARDED_BY(mutex_);
  Clock::time_point next_on_top_ LEASEHOLD_GUARDED_BY(mutex_);
  // The host of the URI that accepted a connection last.
  std::size_t host_ LEASEHOLD_GUARDED_BY(mutex_) = 0;
  bool called_ LEASEHOLD_GUARDED_BY(mutex_) = false;  // since the watchdog looked last
  bool watchdog_sleeps_ LEASEHOLD_GUARDED_BY(mutex_) = false;
  Backoff backoff_ LEASEHOLD_GUARDED_BY(mutex_);
  Clock::time_point next_attempt_ LEASEHOLD_GUARDED_BY(mutex_);
  std::string last_error_ LEASEHOLD_GUARDED_BY(mutex_);
  // Set if the last attempt was refused, and not just failed.
  std::optional<ServerRefused::Reason> last_refusal_ LEASEHOLD_GUARDED_BY(mutex_);

  std::jthread watchdog_;  // last: it uses everything above
};

}  // namespace leasehold::inline v0::postgres
