#include "redis/hiredis_link.hpp"

#include <algorithm>
#include <utility>

#include "leasehold/errors.hpp"
#include "redis/cluster_link.hpp"
#include "redis/destination.hpp"
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
  HiredisLink(std::shared_ptr<Destination> destination, const RedisOptions& options,
              std::shared_ptr<spdlog::logger> logger)
      : destination_(std::move(destination)),
        where_(destination_->uri().display()),
        command_timeout_(options.command_timeout),
        logger_(std::move(logger)) {
    for (std::size_t i = 0; i < options.connections; ++i) {
      connections_.push_back(std::make_unique<SharedConnection>(destination_));
    }
  }

  std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands,
                                   const RedisCall& call) override {
    if (commands.empty()) return {};
    return least_loaded().execute(commands, call.timeout.value_or(command_timeout_), call.replicas);
  }

  std::unique_ptr<RedisSubscription> subscribe(std::string channel,
                                               std::function<void(std::string_view)> on_message,
                                               std::function<void()> on_subscribed) override {
    return std::make_unique<Subscription>(destination_, std::move(channel), std::move(on_message),
                                          std::move(on_subscribed), logger_);
  }

  std::string where() const override { return where_; }

 private:
  SharedConnection& least_loaded() {
    return **std::min_element(connections_.begin(), connections_.end(),
                              [](const auto& a, const auto& b) { return a->load() < b->load(); });
  }

  const std::shared_ptr<Destination> destination_;
  const std::string where_;
  const milliseconds command_timeout_;
  const std::shared_ptr<spdlog::logger> logger_;
  std::vector<std::unique_ptr<SharedConnection>> connections_;
};

RedisUri parse_checked(std::string_view uri, const RedisOptions& options) {
  check_timeout("connect_timeout", options.connect_timeout);
  check_timeout("command_timeout", options.command_timeout);
  if (options.connections < 1 || options.connections > 256) {
    throw InvalidArgument("connections must be 1 to 256, got " +
                          std::to_string(options.connections));
  }
  return RedisUri::parse(uri, options.tls);
}

/// Reads the files that RedisUri::tls names. Throws InvalidArgument if they are of no use.
ClusterAccess access_to(const RedisUri& uri, const RedisOptions& options,
                        const std::shared_ptr<spdlog::logger>& logger) {
  const auto connect = [uri, options, logger, tls = TlsContext::load(uri.tls)](
                           const RedisUri::Address& node, ClusterAccess::Use use) {
    RedisOptions own = options;
    if (use != ClusterAccess::Use::commands) own.connections = 1;
    if (use == ClusterAccess::Use::questions) {
      own.connect_timeout = std::min(own.connect_timeout, longest_question);
    }
    return std::make_shared<HiredisLink>(
        std::make_shared<Destination>(uri.at(node), own.connect_timeout, tls), own, logger);
  };
  return {.where = uri.display(),
          .seeds = uri.seeds,
          .connect_timeout = options.connect_timeout,
          .command_timeout = options.command_timeout,
          .connect = connect};
}

}  // namespace

void check_timeout(const char* what, milliseconds value) {
  if (value < milliseconds{1} || value > milliseconds{600'000}) {
    throw InvalidArgument(std::string(what) + " must be 1 ms to 10 min, got " +
                          duration_text(value));
  }
}

std::shared_ptr<RedisLink> connect(std::string_view uri, const RedisOptions& options,
                                   const std::shared_ptr<spdlog::logger>& logger) {
  return connect_pair(uri, options, logger).commands;
}

LinkPair connect_pair(std::string_view uri, const RedisOptions& options,
                      const std::shared_ptr<spdlog::logger>& logger) {
  const RedisUri parsed = parse_checked(uri, options);
  if (parsed.topology == RedisUri::Topology::cluster) {
    const auto link = connect_cluster(access_to(parsed, options, logger), logger);
    return {link, link->link_for_renewals()};
  }
  RedisOptions for_renewals = options;
  for_renewals.connections = 1;
  const auto destination = std::make_shared<Destination>(parsed, options.connect_timeout);
  return {std::make_shared<HiredisLink>(destination, options, logger),
          std::make_shared<HiredisLink>(destination, for_renewals, logger)};
}

}  // namespace leasehold::inline v0::redis

namespace leasehold::inline v0 {

std::shared_ptr<RedisLink> connect_redis(std::string_view uri, const RedisOptions& options) {
  return redis::connect(uri, options, default_logger());
}

}  // namespace leasehold::inline v0
