#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "leasehold/redis_link.hpp"
#include "tests/support/signal.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// A link that an application lends us, with a hand in what passes. The hooks are set before the
/// link is used; they run on the threads that use it.
class HookedLink final : public RedisLink {
 public:
  explicit HookedLink(const std::string& uri)
      : inner_(connect_redis(uri, {.command_timeout = std::chrono::seconds{10}})) {}

  std::function<void()> before_renewal = [] {};  ///< a heartbeat is about to be sent
  std::function<void()> after_command = [] {};
  std::function<void()> after_message = [] {};
  std::function<void()> after_subscribed = [] {};
  bool subscribes = true;
  std::optional<Signal> subscribes_after;  ///< until then nobody hears what is said to us

  /// Of all the calls that are not renewals.
  int round_trips() const { return round_trips_; }

  std::vector<leasehold::RedisReply> pipeline(std::span<const RedisCommand> commands,
                                              const RedisCall& how) override {
    const auto is_renewal = [](const RedisCommand& command) {
      return std::any_of(command.begin(), command.end(), [](std::string_view word) {
        return word.find("\"renewals\":") != std::string_view::npos;
      });
    };
    if (how.timeout) {  // as renewals have it
      if (std::any_of(commands.begin(), commands.end(), is_renewal)) before_renewal();
      return inner_->pipeline(commands, how);
    }
    ++round_trips_;
    auto replies = inner_->pipeline(commands, how);
    after_command();
    return replies;
  }

  std::unique_ptr<RedisSubscription> subscribe(std::string channel,
                                               std::function<void(std::string_view)> on_message,
                                               std::function<void()> on_subscribed) override {
    if (!subscribes) return nullptr;
    const auto begin = [=, this] {
      return inner_->subscribe(
          channel,
          [=, this](std::string_view message) {
            on_message(message);
            after_message();
          },
          [=, this] {
            on_subscribed();
            after_subscribed();
          });
    };
    if (!subscribes_after) return begin();
    auto late = std::make_unique<LateSubscription>();
    late->thread = std::jthread([begin, gate = *subscribes_after, &inner = late->inner] {
      if (gate.wait()) inner = begin();
    });
    return late;
  }

  std::string where() const override { return inner_->where(); }

 private:
  struct LateSubscription final : RedisSubscription {
    std::unique_ptr<RedisSubscription> inner;
    std::jthread thread;
  };

  const std::shared_ptr<RedisLink> inner_;
  std::atomic<int> round_trips_{0};
};

}  // namespace leasehold::testing
