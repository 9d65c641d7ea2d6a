#pragma once

#include <sw/redis++/redis++.h>

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "leasehold/redis_link.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0::redis_plus_plus {

/// Listens to one channel of one server, on a thread and a connection of its own.
class Subscription final : public RedisSubscription {
 public:
  /// Where the server is. Called before each attempt to connect; nothing if it is not known now.
  using Find = std::function<std::optional<sw::redis::ConnectionOptions>()>;

  Subscription(Find find, std::string channel, std::function<void(std::string_view)> on_message,
               std::function<void()> on_subscribed);
  ~Subscription() override;

 private:
  void run(const std::stop_token& stop);
  void listen(const std::stop_token& stop, const sw::redis::ConnectionOptions& options);

  const Find find_;
  const std::string channel_;
  const std::function<void(std::string_view)> on_message_;
  const std::function<void()> on_subscribed_;
  ThreadMutex mutex_;
  StoppableCondition pause_;
  std::jthread thread_;
};

}  // namespace leasehold::inline v0::redis_plus_plus
