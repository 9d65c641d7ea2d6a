#include "redis/destination.hpp"

#include <utility>

#include "redis/sentinels.hpp"

namespace leasehold::inline v0::redis {

Destination::Destination(RedisUri uri, std::chrono::milliseconds connect_timeout)
    : uri_(std::move(uri)),
      connect_timeout_(connect_timeout),
      sentinels_(uri_.topology == RedisUri::Topology::sentinel
                     ? std::make_unique<Sentinels>(uri_, [this] { move(); })
                     : nullptr) {}

Destination::~Destination() = default;

RedisUri Destination::find_server(Deadline deadline) {
  return sentinels_ ? uri_.at(sentinels_->find_primary(deadline)) : uri_;
}

}  // namespace leasehold::inline v0::redis
