#include "sqlite/locks/lock_listener.hpp"

#include <algorithm>
#include <vector>

#include "sqlite_lock_queries.hpp"

namespace leasehold::inline v0::sqlite {

SqliteLockListener::SqliteLockListener(Database& database, std::string client,
                                       std::shared_ptr<Activity> activity,
                                       std::function<void(const LockMessage&)> handler)
    : client_(std::move(client)),
      handler_(std::move(handler)),
      watcher_(database, client_,
               {.on_message = [this](std::string_view text) { hear(text); },
                .on_change = [this](Connection& connection) { read_messages(connection); },
                .on_reset = [this] { reset(); }},
               std::move(activity)) {}

void SqliteLockListener::hear(std::string_view text) {
  if (const auto message = parse_lock_message(text)) handler_(*message);
}

void SqliteLockListener::read_messages(Connection& connection) {
  // The newest id is read before the messages, so that those for others are not read again. Nothing
  // is missed: ids grow with the commits, and a message written in between is read now or next
  // time.
  std::int64_t newest = 0;
  {
    auto row = connection.prepare(lock_sql::newest_message);
    row.step();
    newest = row.integer(0);  // 0 if there is none
  }
  std::vector<std::string> texts;
  {
    auto rows = connection.prepare(lock_sql::messages, read_up_to_, client_);
    while (rows.step()) {
      newest = std::max(newest, rows.integer(0));
      texts.emplace_back(rows.text(1));
    }
  }
  read_up_to_ = std::max(read_up_to_, newest);
  for (const std::string& text : texts) hear(text);
}

void SqliteLockListener::reset() {
  read_up_to_ = 0;
  handler_({LockMessage::Type::reset});
}

}  // namespace leasehold::inline v0::sqlite
