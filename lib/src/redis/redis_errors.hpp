#pragma once

#include <string>
#include <string_view>

#include "leasehold/errors.hpp"
#include "leasehold/redis_link.hpp"

namespace leasehold::inline v0 {

/// What an error reply of Redis means, and what can be done about it.
ServerRefused explain(std::string_view error_reply, const std::string& where);

/// Passes the reply on, or throws what its error means.
RedisReply&& checked(RedisReply&& reply, const std::string& where);

}  // namespace leasehold::inline v0
