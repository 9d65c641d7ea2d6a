#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "leasehold/lock.hpp"
#include "leasehold/runner_id.hpp"

namespace leasehold::inline v0 {

inline constexpr std::size_t owner_size = 32;

/// What a lock's key holds: the owner, a state ('=' held, '?' granted but not confirmed), then a
/// JSON object. No time of day is written into it: how long ago the last heartbeat was follows from
/// what is left of the lease, and the time of the grant from the `held` that the heartbeat brought
/// along. So no clock but the server's is ever read by anybody else.
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
  /// `client` names the channel on which this client hears messages, `keep_counter` says how long a
  /// new token counter lives.
  LockValueWriter(const RunnerId& runner, std::string_view client, std::chrono::milliseconds linger,
                  std::chrono::milliseconds keep_counter);
  std::string write(const LockValue& value) const;

 private:
  std::string same_for_all_;  // the fields that do not change, with the opening brace
};

/// A lock as it was found.
struct StoredLock {
  std::string owner;
  std::chrono::milliseconds linger{0};
  bool confirmed = true;  ///< false: granted to a waiter that has not confirmed yet
  LockRecord record;
};

/// What the server knows about a value.
struct ServerView {
  std::chrono::milliseconds pttl;             ///< of the lock's key
  FencingToken counter;                       ///< the token counter
  std::chrono::system_clock::time_point now;  ///< the server's time
};

/// A value that Leasehold did not write yields a record without a runner.
StoredLock read_lock_value(std::string_view name, std::string_view value, const ServerView& view);

/// A shared holder: `value` is its state and record, `lease_end` in ms of the server's time.
LockRecord read_shared_holder(std::string_view name, std::string_view value,
                              std::chrono::milliseconds lease_end, const ServerView& view);

/// A waiter as the book has it: see pack_waiter in lua/include/line.lua.
LockWaiter read_waiter(std::string_view text);

}  // namespace leasehold::inline v0
