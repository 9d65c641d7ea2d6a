#pragma once

#include <string>
#include <string_view>

#include "leasehold/errors.hpp"
#include "leasehold/redis_link.hpp"

namespace leasehold::inline v0::redis {

/// Says what an error reply of Redis means, and what to do about it.
ServerRefused explain(std::string_view error_reply, const std::string& where);

/// Returns the reply. Throws what it means if it is an error.
RedisReply&& checked(RedisReply&& reply, const std::string& where);

}  // namespace leasehold::inline v0::redis
