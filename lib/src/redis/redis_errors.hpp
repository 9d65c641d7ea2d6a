#pragma once

#include <string>
#include <string_view>

#include "leasehold/errors.hpp"
#include "leasehold/redis_link.hpp"

namespace leasehold::inline v0::redis {

/// Says what an error reply of Redis means, and what to do about it.
ServerRefused explain(std::string_view error_reply, const std::string& where);

/// A refusal that one thread has met and others are told of. Not the exception itself: its copies
/// share their text, and ThreadSanitizer cannot see that this is safe.
struct Refusal {
  explicit Refusal(const ServerRefused& met) : reason(met.reason()), text(met.what()) {}

  [[noreturn]] void raise() const { throw ServerRefused(reason, text); }

  ServerRefused::Reason reason;
  std::string text;
};

/// Whether the error means that this server cannot be used, while another one may have taken over
/// its name: a new connection may help.
bool is_about_this_server(std::string_view error_reply);

/// Whether it is an error, or no reply at all.
bool is_failure(const RedisReply& reply);

/// Says why, for a reply that is a failure.
std::string why_failed(const RedisReply& reply, const std::string& where);

/// Returns the reply. Throws what it means if it is a failure.
RedisReply&& checked(RedisReply&& reply, const std::string& where);

/// What to throw for a reply that grants something, but not on as many replicas as wanted.
ServerRefused not_replicated(const RedisReply& reply, const std::string& where);

}  // namespace leasehold::inline v0::redis
