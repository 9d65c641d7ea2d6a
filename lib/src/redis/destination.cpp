#include "redis/destination.hpp"

#include <utility>

#include "redis/sentinels.hpp"
#include "redis/tls.hpp"

namespace leasehold::inline v0::redis {

Destination::Destination(const RedisUri& uri, std::chrono::milliseconds connect_timeout)
    : Destination(uri, connect_timeout, TlsContext::load(uri.tls)) {}

Destination::Destination(RedisUri uri, std::chrono::milliseconds connect_timeout,
                         std::shared_ptr<const TlsContext> tls)
    : uri_(std::move(uri)),
      connect_timeout_(connect_timeout),
      tls_(std::move(tls)),
      sentinels_(uri_.topology == RedisUri::Topology::sentinel
                     ? std::make_unique<Sentinels>(uri_, tls_, [this] { move(); })
                     : nullptr) {}

Destination::~Destination() = default;

RedisUri Destination::find_server(Deadline deadline) {
  return sentinels_ ? uri_.at(sentinels_->find_primary(deadline)) : uri_;
}

}  // namespace leasehold::inline v0::redis
