#pragma once

#include <chrono>
#include <memory>

struct pg_conn;

namespace leasehold::inline v0::postgres {

/// Asks the server to end the statement that a connection runs. libpq does that over a connection
/// of its own, which is never encrypted, and waits without a limit until the server has answered.
/// That is why a detached thread does it. Thread-safe.
class CancelRequest {
 public:
  /// For the thread that uses the connection. Throws std::bad_alloc.
  explicit CancelRequest(pg_conn* connection);

  /// Sends a request and returns at once. Does nothing while an earlier one is under way.
  void send() noexcept;

  /// Waits until no request is under way, so that none can hit a later statement. False if one
  /// still is after `longest`.
  bool wait_until_done(std::chrono::milliseconds longest) const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // the thread outlives us if the server does not answer
};

}  // namespace leasehold::inline v0::postgres
