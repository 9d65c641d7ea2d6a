#pragma once

#include <algorithm>
#include <chrono>

namespace leasehold::inline v0::postgres {

/// How long a write of a lease's holder waits for a row that somebody has locked. The server then
/// refuses it, and only it. If the wait could reach the time-out, the store would look unreachable
/// instead. Never 0, which to PostgreSQL means no limit.
inline std::chrono::milliseconds lock_patience(std::chrono::milliseconds command_timeout) {
  using std::chrono::milliseconds;
  return std::clamp(command_timeout / 2, milliseconds{1}, milliseconds{1'000});
}

/// How long a statement that skips locked rows waits for a table that somebody has locked. Less
/// than the time-out, so that it ends by itself where requests to cancel it get lost.
inline std::chrono::milliseconds table_patience(std::chrono::milliseconds command_timeout) {
  return std::max(command_timeout * 3 / 4, std::chrono::milliseconds{1});
}

}  // namespace leasehold::inline v0::postgres
