#pragma once

#include <charconv>
#include <stop_token>
#include <string>
#include <string_view>

#include "leasehold/errors.hpp"
#include "postgres/connection.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {

/// Adds what one notification says: a line for each type, with the number of tasks after a tab.
/// Returns false if it does not say which tasks were added.
inline bool add_news(News& news, std::string_view notification) {
  if (notification.empty()) return false;
  while (!notification.empty()) {
    const auto line = notification.substr(0, notification.find('\n'));
    notification.remove_prefix(std::min(notification.size(), line.size() + 1));
    const auto tab = line.rfind('\t');
    if (tab == std::string_view::npos) return false;
    std::size_t number = 0;
    const char* const end = line.data() + line.size();
    if (std::from_chars(line.data() + tab + 1, end, number).ptr != end || number == 0) return false;
    news.added[std::string(line.substr(0, tab))] += number;
  }
  return true;
}

/// Receives NOTIFY on a connection of its own.
class PostgresListener : public TaskListener {
 public:
  /// Connects. Throws Unavailable or ServerRefused. The channel is named like the schema.
  PostgresListener(const PostgresUri& uri, std::string schema)
      : connection_(uri), channel_(std::move(schema)) {}

  News wait(const std::stop_token& stop) override {
    const std::stop_callback interrupt(stop, [this] { connection_.interrupt(); });
    try {
      if (listens_) return news_of(connection_.wait_for_notifications());
      connection_.listen(channel_);
      listens_ = true;
    } catch (const Error&) {
      if (!stop.stop_requested()) throw;
    }
    return {};
  }

  void rest() override {
    connection_.unlisten();
    listens_ = false;
  }

 private:
  static News news_of(const std::vector<std::string>& notifications) {
    News news;
    for (const std::string& notification : notifications) {
      // Other programs may notify too, and say nothing that we know.
      if (!add_news(news, notification)) return {};
    }
    return news;
  }

  Connection connection_;
  const std::string channel_;
  bool listens_ = false;
};

}  // namespace leasehold::inline v0::postgres
