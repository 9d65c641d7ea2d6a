#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "leasehold/errors.hpp"
#include "postgres/connection.hpp"
#include "postgres/notifications.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {

/// Receives NOTIFY on a connection of its own.
class PostgresListener : public TaskListener {
 public:
  /// Connects. Throws Unavailable or ServerRefused.
  PostgresListener(const PostgresUri& uri, const std::string& schema)
      : connection_(uri), channels_(news_channels(schema)) {}

  News wait(const std::stop_token& stop) override {
    const bool is_first = !hears_many_;
    std::vector<std::string> heard;
    unless_stopped(stop, [&] {
      if (!std::exchange(hears_many_, true)) connection_.listen(channels_.many);
      if (!std::exchange(hears_few_, true)) connection_.listen(channels_.few);
      if (!is_first) heard = connection_.wait_for_notifications();
    });
    return all_news(heard);
  }

  std::optional<News> wait_for_many(std::chrono::milliseconds longest,
                                    const std::stop_token& stop) override {
    std::vector<std::string> heard;
    unless_stopped(stop, [&] {
      if (std::exchange(hears_few_, false)) connection_.unlisten(channels_.few);
      heard = connection_.wait_for_notifications(longest);
    });
    if (heard.empty()) return std::nullopt;
    return all_news(heard);
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
  const NewsChannels channels_;
  bool hears_few_ = false;
  bool hears_many_ = false;
};

}  // namespace leasehold::inline v0::postgres
