#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "leasehold/redis_link.hpp"
#include "redis/connection.hpp"

namespace spdlog {
class logger;
}

namespace leasehold::inline v0::redis {

/// One channel, on a connection and a thread of its own. Subscribes again by itself after a loss,
/// notices within about two seconds if the server has stopped answering, and follows the link's
/// commands within one if they have moved to another server.
class Subscription final : public RedisSubscription {
 public:
  Subscription(RedisUri uri, std::chrono::milliseconds connect_timeout, std::string channel,
               std::function<void(std::string_view)> on_message,
               std::function<void()> on_subscribed, std::shared_ptr<spdlog::logger> logger,
               std::shared_ptr<const std::atomic<unsigned>> moves,
               std::shared_ptr<const TlsContext> tls);
  ~Subscription() override;

 private:
  void run(const std::stop_token& stop);
  void listen(const std::stop_token& stop, unsigned moves);
  void handle(const RedisReply& reply);

  const std::string channel_;
  const std::function<void(std::string_view)> on_message_;
  const std::function<void()> on_subscribed_;
  const std::shared_ptr<spdlog::logger> logger_;
  const std::string where_;
  const std::shared_ptr<const std::atomic<unsigned>> moves_;  // see SharedConnection
  Connection connection_;                                     // used by the thread only
  bool warned_ = false;                                       // used by the thread only
  const int wake_fd_;
  std::jthread thread_;
};

}  // namespace leasehold::inline v0::redis
