#pragma once

#include <stop_token>

#include "leasehold/errors.hpp"
#include "postgres/connection.hpp"
#include "postgres/statement.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {

/// Receives NOTIFY on a connection of its own.
class PostgresListener : public TaskListener {
 public:
  /// Connects. Throws Unavailable or ServerRefused.
  PostgresListener(const PostgresUri& uri, const Statement& listen)
      : connection_(uri), listen_(listen) {}

  News wait(const std::stop_token& stop) override {
    const std::stop_callback interrupt(stop, [this] { connection_.interrupt(); });
    try {
      if (listens_) {
        connection_.wait_for_notification();
      } else {
        connection_.run(listen_, {});
        listens_ = true;
      }
    } catch (const Connection::Dead&) {
      if (!stop.stop_requested())
        throw Unavailable("the server closed the connection before LISTEN");
    } catch (const Error&) {
      if (!stop.stop_requested()) throw;
    }
    return {};
  }

 private:
  Connection connection_;
  const Statement& listen_;  // belongs to the store
  bool listens_ = false;
};

}  // namespace leasehold::inline v0::postgres
