#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <pqxx/pqxx>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "postgres/abandoned_backend.hpp"
#include "postgres/cancel_request.hpp"
#include "postgres/params.hpp"
#include "postgres/postgres_uri.hpp"
#include "postgres/pqxx_bridge.hpp"
#include "postgres/statement.hpp"

namespace leasehold::inline v0::postgres {

/// One connection. For one thread at a time, except for cancel() and interrupt().
class Connection {
 public:
  /// Connects to the first host that accepts us, beginning with number `first_host`. Throws
  /// Unavailable or ServerRefused.
  explicit Connection(const PostgresUri& uri, std::size_t first_host = 0);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Thrown if nothing was sent, because the server had closed the connection before.
  struct Dead {};

  /// Runs one statement, which is a transaction of its own. Throws Dead, SqlRefused, Unavailable if
  /// cancel() has ended it, or OutcomeUnknown if the answer was lost or cancel() came too late.
  pqxx::result run(const Statement& statement, const Params& params);

  /// Runs `work` in one transaction and commits it. Throws what run() throws, or what `work` does.
  void transaction(const std::function<void(pqxx::transaction_base&)>& work);

  /// Subscribes to the notifications of a channel. Throws what run() throws.
  void listen(const std::string& channel);

  /// Ends listen(). Throws Unavailable when the connection is lost.
  void unlisten();

  /// After listen(), waits for notifications or for interrupt(). Returns their payloads. Throws
  /// Unavailable when the connection is lost.
  std::vector<std::string> wait_for_notifications();

  /// False once the connection is lost or its state is not known.
  bool usable() const { return !broken_ && !interrupted_ && connection_->is_open(); }

  /// Whether other connections to the same server are probably of no use either: it is read-only,
  /// shuts down, does not answer, or the connection was lost without a word from it.
  bool siblings_suspect() const { return siblings_suspect_; }

  /// The number of the host in the URI.
  std::size_t host() const { return host_; }

  /// Asks the server to end the statement, and returns at once. May be called from any thread while
  /// another one is in run(), and more than once.
  void cancel() noexcept;

  /// After cancel(), before the next statement: waits at most `longest` until the request is over,
  /// so that it cannot hit that one. Otherwise the connection is not usable any more.
  void settle(std::chrono::milliseconds longest);

  /// Breaks the connection. A thread that waits for an answer gets an error at once. May be called
  /// from any thread. The server is told when the connection is closed or abandoned.
  void interrupt() noexcept;

  /// The backend, if interrupt() came before its answer. After that the connection is of no use.
  std::optional<AbandonedBackend> abandon() noexcept;

 private:
  /// Collects the payloads of notifications. libpqxx calls it from get_notifs().
  class Receiver : public pqxx::notification_receiver {
   public:
    using notification_receiver::notification_receiver;
    void operator()(const std::string& payload, int /*backend*/) override {
      heard.push_back(payload);
    }
    std::vector<std::string> heard;
  };

  bool hung_up() const noexcept;
  const pqxx::result& checked(const pqxx::result& reply) const;
  [[noreturn]] void raise(const std::exception& error);

  std::string where_;
  std::size_t host_;
  std::optional<CancelRequest> cancel_request_;
  std::unique_ptr<PqxxConnection> connection_;
  std::unique_ptr<pqxx::quiet_errorhandler> silence_;  // a library does not print
  std::unique_ptr<Receiver> receiver_;
  bool broken_ = false;
  bool siblings_suspect_ = false;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> interrupted_{false};
  bool keeps_plans_ = true;  // until a prepared statement turns out to be missing
  std::unordered_set<std::string> prepared_;
  int socket_ = -1;  // a duplicate, so that interrupt() cannot hit another file with that number
};

}  // namespace leasehold::inline v0::postgres
