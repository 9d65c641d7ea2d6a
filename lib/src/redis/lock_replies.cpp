#include "redis/lock_replies.hpp"

#include <algorithm>
#include <charconv>

#include "leasehold/errors.hpp"

namespace leasehold::inline v0::redis {

using std::chrono::milliseconds;
using std::chrono::system_clock;

namespace {

/// What status and force_release say beside the value.
ServerView to_view(const RedisReply& reply) {
  return {milliseconds{part(reply, 1).integer}, to_token(part(reply, 2)),
          to_time(part(reply, 3), part(reply, 4))};
}

}  // namespace

std::string_view mode_word(AcquireMode mode) {
  switch (mode) {
    case AcquireMode::if_free:
      return "free";
    case AcquireMode::if_silent:
      return "silent";
    case AcquireMode::always:
      break;
  }
  return "always";
}

std::string_view kind_word(LockKind kind, int permits) {
  if (kind == LockKind::exclusive) return "x";
  return permits > 0 ? "p" : "s";
}

std::string_view join_word(Join join) {
  switch (join) {
    case Join::no:
      return "no";
    case Join::tail:
      return "tail";
    case Join::head:
      break;
  }
  return "head";
}

const RedisReply& part(const RedisReply& reply, std::size_t index) {
  if (index < reply.elements.size()) return reply.elements[index];
  throw OutcomeUnknown("Redis: unexpected reply to a command of ours, part " +
                       std::to_string(index + 1) + " is missing");
}

std::optional<GrantKind> grant_kind(std::string_view word) {
  if (word == "free") return GrantKind::fresh;
  if (word == "handed") return GrantKind::handed;
  if (word == "mine") return GrantKind::repeated;
  if (word == "adopted") return GrantKind::adopted;
  if (word == "stale") return GrantKind::stale;
  if (word == "stolen") return GrantKind::stolen;
  if (word == "forced") return GrantKind::forced;
  return std::nullopt;  // busy
}

FencingToken to_token(const RedisReply& reply) {
  if (reply.type == RedisReply::Type::integer) {
    return {static_cast<std::uint64_t>(reply.integer)};
  }
  FencingToken token;
  std::from_chars(reply.text.data(), reply.text.data() + reply.text.size(), token.value);
  return token;
}

milliseconds to_duration(const RedisReply& reply) { return bounded(milliseconds{reply.integer}); }

system_clock::time_point to_time(const RedisReply& seconds, const RedisReply& microseconds) {
  const auto number = [](const RedisReply& reply, std::int64_t most) {
    return std::clamp(static_cast<std::int64_t>(to_token(reply).value), std::int64_t{0}, most);
  };
  return system_clock::time_point{std::chrono::seconds{number(seconds, 8'000'000'000)} +
                                  std::chrono::microseconds{number(microseconds, 999'999)}};
}

StoredLock to_stored_lock(std::string_view name, const RedisReply& reply) {
  StoredLock lock = read_lock_value(name, part(reply, 0).text, to_view(reply));
  if (lock.record.kind == LockKind::shared) {
    lock.record.holder_count = static_cast<std::uint64_t>(part(reply, 5).integer);
  }
  lock.record.waiter_count = static_cast<std::uint64_t>(part(reply, 6).integer);
  return lock;
}

StoredLock to_stored_lock_in_detail(std::string_view name, const RedisReply& reply) {
  StoredLock lock = to_stored_lock(name, reply);
  const ServerView view = to_view(reply);
  const auto& shared = part(reply, 7).elements;
  for (std::size_t i = 0; i + 2 < shared.size(); i += 3) {
    const milliseconds grant_end{static_cast<std::int64_t>(to_token(shared[i + 2]).value)};
    lock.record.holders.push_back(read_shared_holder(name, shared[i + 1].text, grant_end, view));
  }
  for (const RedisReply& waiter : part(reply, 8).elements) {
    lock.record.waiters.push_back(read_waiter(waiter.text));
  }
  return lock;
}

RenewalResult to_renewal_result(const RedisReply& reply) {
  return reply.integer == 1   ? RenewalResult::renewed
         : reply.integer == 0 ? RenewalResult::vanished
                              : RenewalResult::taken;
}

Standing to_standing(const RedisReply& reply) {
  return reply.integer == 1   ? Standing::held
         : reply.integer == 0 ? Standing::vanished
                              : Standing::taken;
}

}  // namespace leasehold::inline v0::redis
