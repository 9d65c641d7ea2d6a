#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "leasehold/lock.hpp"
#include "leasehold/runner_id.hpp"

namespace leasehold::inline v0::redis {

inline constexpr std::size_t owner_size = 32;

/// What a lock's key holds: the owner, a state ('=' held, '?' offered), then a JSON object. It has
/// no time of day. The age of the last heartbeat follows from the time that is left of the ttl, and
/// the time of the grant from `held`, which the heartbeat brings along. So nobody ever compares its
/// own clock with that of another machine.
struct LockValue {
  std::string_view owner;
  std::string_view metadata;  ///< a JSON object, or empty
  std::chrono::milliseconds ttl;
  std::chrono::milliseconds heartbeat_every;
  std::uint64_t renewals = 0;
  std::chrono::milliseconds held{0};
  FencingToken token;  ///< 0 before the first heartbeat: then it is the counter's
};

class LockValueWriter {
 public:
  /// `client` names the channel on which this client hears messages, `linger` is how long a record
  /// outlives its grant, `keep_counter` how long a new token counter lives.
  LockValueWriter(const RunnerId& runner, std::string_view client, std::chrono::milliseconds linger,
                  std::chrono::milliseconds keep_counter);
  std::string write(const LockValue& value) const;

 private:
  std::string constant_fields_;  // with the opening brace
};

/// A lock as it was found.
struct StoredLock {
  std::string owner;
  std::chrono::milliseconds linger{0};
  bool confirmed = true;  ///< false: an offer
  LockRecord record;
};

/// What the server says about a value.
struct ServerView {
  std::chrono::milliseconds pttl;             ///< of the lock's key
  FencingToken counter;                       ///< the token counter
  std::chrono::system_clock::time_point now;  ///< the server's time
};

/// The time, but not so long that adding a few of them could overflow.
std::chrono::milliseconds bounded(std::chrono::milliseconds time);

/// Returns a record without a runner if Leasehold did not write the value.
StoredLock read_lock_value(std::string_view name, std::string_view value, const ServerView& view);

/// A shared holder: `value` is its state and record, `end` that of its grant in ms of the server's
/// time. Has no runner if Leasehold did not write the value.
LockRecord read_shared_holder(std::string_view name, std::string_view value,
                              std::chrono::milliseconds end, const ServerView& view);

/// A waiter as the book describes it: see pack_waiter in lua/include/line.lua. Has no runner if
/// Leasehold did not write it.
LockWaiter read_waiter(std::string_view text);

}  // namespace leasehold::inline v0::redis
