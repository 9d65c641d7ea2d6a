#pragma once

#include <sw/redis++/redis++.h>

#include <memory>
#include <optional>

#include "leasehold/redis_link.hpp"

namespace leasehold::inline v0::redis_plus_plus {

/// A link to the one server that this Redis leads to. The options are those of its connections, if
/// they are known.
std::shared_ptr<RedisLink> link_to(std::shared_ptr<sw::redis::Redis> redis,
                                   std::optional<sw::redis::ConnectionOptions> options = {});

}  // namespace leasehold::inline v0::redis_plus_plus
