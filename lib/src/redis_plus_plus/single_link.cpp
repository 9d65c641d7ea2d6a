#include "redis_plus_plus/single_link.hpp"

#include <array>
#include <utility>

#include "leasehold/errors.hpp"
#include "leasehold/redis_plus_plus.hpp"
#include "redis_plus_plus/conversation.hpp"
#include "redis_plus_plus/subscription.hpp"

namespace leasehold::inline v0 {
namespace redis_plus_plus {
namespace {

/// Heartbeats: on a connection of their own, one after the other.
class RenewalLink final : public RedisLink {
 public:
  explicit RenewalLink(std::shared_ptr<sw::redis::Redis> redis) : redis_(std::move(redis)) {}

  std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands,
                                   const RedisCall& call) override {
    if (commands.empty()) return {};
    const ThreadLock lock(mutex_);
    for (;;) {
      // A new pipeline has a pool of its own, made like the original: it asks the sentinels, too.
      if (!own_) own_.emplace(redis_->pipeline(true));
      try {
        return conversation_.run(*own_, commands, call);
      } catch (const Outdated&) {
        own_.reset();
      } catch (...) {
        own_.reset();  // after an error redis-plus-plus cannot use it again
        throw;
      }
    }
  }

  std::string where() const override { return conversation_.where(); }

 private:
  const std::shared_ptr<sw::redis::Redis> redis_;
  Conversation conversation_;
  ThreadMutex mutex_;
  std::optional<sw::redis::Pipeline> own_ LEASEHOLD_GUARDED_BY(mutex_);
};

class SingleLink final : public RedisLink {
 public:
  SingleLink(std::shared_ptr<sw::redis::Redis> redis,
             std::optional<sw::redis::ConnectionOptions> options)
      : redis_(std::move(redis)),
        conversation_(std::make_shared<Conversation>(std::move(options))) {}

  std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands,
                                   const RedisCall& call) override {
    if (commands.empty()) return {};
    return run(*redis_, *conversation_, commands, call);
  }

  std::shared_ptr<RedisLink> link_for_renewals() override {
    return std::make_shared<RenewalLink>(redis_);
  }

  std::unique_ptr<RedisSubscription> subscribe(std::string channel,
                                               std::function<void(std::string_view)> on_message,
                                               std::function<void()> on_subscribed) override {
    auto find = [redis = redis_, conversation = conversation_, first = true]() mutable {
      // After a failure the pool is asked, because it finds the primary.
      if (!std::exchange(first, false) || !conversation->options()) {
        const std::array<std::string_view, 1> ping{"PING"};
        const RedisCommand command{ping};
        run(*redis, *conversation, {&command, 1}, {});
      }
      return conversation->options();
    };
    return std::make_unique<Subscription>(std::move(find), std::move(channel),
                                          std::move(on_message), std::move(on_subscribed));
  }

  std::string where() const override { return conversation_->where(); }

 private:
  static std::vector<RedisReply> run(sw::redis::Redis& redis, Conversation& conversation,
                                     std::span<const RedisCommand> commands,
                                     const RedisCall& call) {
    for (;;) {
      auto pipeline = redis.pipeline(false);
      try {
        return conversation.run(pipeline, commands, call);
      } catch (const Outdated&) {
        // Each connection is outdated once.
      }
    }
  }

  const std::shared_ptr<sw::redis::Redis> redis_;
  const std::shared_ptr<Conversation> conversation_;
};

}  // namespace

std::shared_ptr<RedisLink> link_to(std::shared_ptr<sw::redis::Redis> redis,
                                   std::optional<sw::redis::ConnectionOptions> options) {
  return std::make_shared<SingleLink>(std::move(redis), std::move(options));
}

}  // namespace redis_plus_plus

std::shared_ptr<RedisLink> lend_redis(std::shared_ptr<sw::redis::Redis> redis) {
  if (!redis) throw InvalidArgument("lend_redis: the Redis is null");
  try {
    redis->pipeline(false);
  } catch (const sw::redis::Error& error) {
    throw InvalidArgument(std::string("lend_redis: ") + error.what());
  }
  auto link = redis_plus_plus::link_to(std::move(redis));
  const std::array<std::string_view, 1> ping{"PING"};
  const RedisCommand command{ping};
  try {
    link->pipeline({&command, 1});
  } catch (const InvalidArgument&) {
    throw;
  } catch (const Error&) {
    // The first caller who needs the server is told.
  }
  return link;
}

}  // namespace leasehold::inline v0
