#pragma once

#include <optional>
#include <string_view>

#include "leasehold/redis_link.hpp"
#include "locks/lock_store.hpp"
#include "redis/lock_value.hpp"

namespace leasehold::inline v0::redis {

// The words that the scripts of lua/ take as arguments, and what their replies mean.

std::string_view mode_word(AcquireMode mode);
std::string_view kind_word(LockKind kind, int permits);
std::string_view join_word(Join join);

/// A part of a reply of several. Throws OutcomeUnknown if there is none, which no script of ours
/// answers: what the server did is anybody's guess.
const RedisReply& part(const RedisReply& reply, std::size_t index);

/// The first part of a reply of contend. Nothing for `busy`.
std::optional<GrantKind> grant_kind(std::string_view word);

/// An integer, or a number as text.
FencingToken to_token(const RedisReply& reply);

/// A time that a reply states, but not so long that adding a few of them could overflow.
std::chrono::milliseconds to_duration(const RedisReply& reply);

/// The server's time, as TIME answers.
std::chrono::system_clock::time_point to_time(const RedisReply& seconds,
                                              const RedisReply& microseconds);

/// The reply of status or force_release.
StoredLock to_stored_lock(std::string_view name, const RedisReply& reply);

/// The reply of status with detail: includes the shared holders and the line.
StoredLock to_stored_lock_in_detail(std::string_view name, const RedisReply& reply);

RenewalResult to_renewal_result(const RedisReply& reply);
Standing to_standing(const RedisReply& reply);

}  // namespace leasehold::inline v0::redis
