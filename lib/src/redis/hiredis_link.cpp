#include "redis/hiredis_link.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "leasehold/errors.hpp"
#include "redis/redis_uri.hpp"
#include "redis/shared_connection.hpp"
#include "redis/subscription.hpp"
#include "redis/tls.hpp"
#include "support/default_logger.hpp"
#include "support/duration_text.hpp"

namespace leasehold::inline v0::redis {
namespace {

using std::chrono::milliseconds;

class HiredisLink final : public RedisLink {
 public:
  HiredisLink(const RedisUri& uri, const RedisOptions& options,
              std::shared_ptr<spdlog::logger> logger)
      : uri_(uri),
        tls_(TlsContext::load(uri.tls)),
        where_(uri.display()),
        connect_timeout_(options.connect_timeout),
        command_timeout_(options.command_timeout),
        logger_(std::move(logger)) {
    for (std::size_t i = 0; i < options.connections; ++i) {
      connections_.push_back(
          std::make_unique<SharedConnection>(uri, options.connect_timeout, moves_, tls_));
    }
  }

  std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands,
                                   milliseconds timeout) override {
    if (commands.empty()) return {};
    return least_loaded().execute(commands, timeout);
  }

  std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands) override {
    if (commands.empty()) return {};
    return least_loaded().execute(commands, command_timeout_);
  }

  std::unique_ptr<RedisSubscription> subscribe(std::string channel,
                                               std::function<void(std::string_view)> on_message,
                                               std::function<void()> on_subscribed) override {
    return std::make_unique<Subscription>(uri_, connect_timeout_, std::move(channel),
                                          std::move(on_message), std::move(on_subscribed), logger_,
                                          moves_, tls_);
  }

  std::string where() const override { return where_; }

 private:
  SharedConnection& least_loaded() {
    return **std::min_element(connections_.begin(), connections_.end(),
                              [](const auto& a, const auto& b) { return a->load() < b->load(); });
  }

  const RedisUri uri_;
  const std::shared_ptr<const TlsContext> tls_;
  const std::string where_;
  const milliseconds connect_timeout_;
  const milliseconds command_timeout_;
  const std::shared_ptr<spdlog::logger> logger_;
  const std::shared_ptr<std::atomic<unsigned>> moves_ = std::make_shared<std::atomic<unsigned>>(0);
  std::vector<std::unique_ptr<SharedConnection>> connections_;
};

}  // namespace

void check_timeout(const char* what, milliseconds value) {
  if (value < milliseconds{1} || value > milliseconds{600'000}) {
    throw InvalidArgument(std::string(what) + " must be 1 ms to 10 min, got " +
                          duration_text(value));
  }
}

std::shared_ptr<RedisLink> connect(std::string_view uri, const RedisOptions& options,
                                   std::shared_ptr<spdlog::logger> logger) {
  check_timeout("connect_timeout", options.connect_timeout);
  check_timeout("command_timeout", options.command_timeout);
  if (options.connections < 1 || options.connections > 256) {
    throw InvalidArgument("connections must be 1 to 256, got " +
                          std::to_string(options.connections));
  }
  return std::make_shared<HiredisLink>(RedisUri::parse(uri, options.tls), options,
                                       std::move(logger));
}

}  // namespace leasehold::inline v0::redis

namespace leasehold::inline v0 {

std::shared_ptr<RedisLink> connect_redis(std::string_view uri, const RedisOptions& options) {
  return redis::connect(uri, options, default_logger());
}

}  // namespace leasehold::inline v0
