#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "locks/lock_store.hpp"
#include "sqlite/database/watcher.hpp"

namespace leasehold::inline v0::sqlite {

/// Passes on the messages for one client: those of this process arrive through the hub, those of
/// other processes through the table lock_messages.
class SqliteLockListener final : public LockListener {
 public:
  SqliteLockListener(Database& database, std::string client, std::shared_ptr<Activity> activity,
                     std::function<void(const LockMessage&)> handler);

 private:
  void hear(std::string_view text);
  void read_messages(Connection& connection);
  void reset();

  const std::string client_;
  const std::function<void(const LockMessage&)> handler_;
  std::int64_t read_up_to_ = 0;  // id of a message; used by the watcher's thread only
  Watcher watcher_;              // the last member, because it calls us
};

}  // namespace leasehold::inline v0::sqlite
