#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "leasehold/errors.hpp"
#include "postgres/connection.hpp"
#include "postgres/notifications.hpp"
#include "support/sleep.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {

/// Receives NOTIFY on a connection of its own.
class PostgresListener : public TaskListener {
 public:
  /// Connects. Throws Unavailable or ServerRefused. The channel is named like the schema.
  PostgresListener(const PostgresUri& uri, std::string schema)
      : connection_(uri), channel_(std::move(schema)) {}

  News wait(const std::stop_token& stop) override {
    std::vector<std::string> heard;
    unless_stopped(stop, [&] {
      if (!std::exchange(listens_, true)) connection_.listen(channel_);
      if (std::exchange(works_, true)) heard = connection_.wait_for_notifications();
    });
    return all_news(heard);
  }

  void rest(std::chrono::milliseconds time, const std::stop_token& stop) override {
    unless_stopped(stop, [&] {
      if (std::exchange(listens_, false)) connection_.unlisten();
      sleep_for(time, stop);
    });
  }

 private:
  /// The stop also ends a wait for a server that does not answer.
  template <typename Work>
  void unless_stopped(const std::stop_token& stop, Work&& work) {
    const std::stop_callback interrupt(stop, [this] { connection_.interrupt(); });
    try {
      work();
    } catch (const Error&) {
      if (!stop.stop_requested()) throw;
    }
  }

  Connection connection_;
  const std::string channel_;
  bool listens_ = false;
  bool works_ = false;  // wait() has returned once
};

}  // namespace leasehold::inline v0::postgres
