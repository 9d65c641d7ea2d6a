#pragma once

#include <string>
#include <string_view>

#include "leasehold/errors.hpp"
#include "leasehold/redis_link.hpp"

namespace leasehold::inline v0::redis {

/// Says what an error reply of Redis means, and what to do about it.
ServerRefused explain(std::string_view error_reply, const std::string& where);

/// Whether the error means that this server cannot be used, while another one may have taken over
/// its name: a new connection may help.
bool is_about_this_server(std::string_view error_reply);

/// Returns the reply. Throws what it means if it is an error.
RedisReply&& checked(RedisReply&& reply, const std::string& where);

}  // namespace leasehold::inline v0::redis
