#pragma once

#include <compare>
#include <cstdint>
#include <ostream>

namespace leasehold::inline v0 {

/// A number that grows with every exclusive grant of a lock.
///
/// Every lock with a time limit has a gap: a holder that was paused may write after the lock went
/// to somebody else. To close it, send the token with each write, and let whatever the lock
/// protects refuse a token that is smaller than one it has seen.
///
/// Tokens keep growing even if Redis loses its data, or continues with older data after a failover
/// or a restart, unless the clock of the new server is behind by more than that took.
struct FencingToken {
  std::uint64_t value = 0;

  friend auto operator<=>(const FencingToken&, const FencingToken&) = default;
  friend std::ostream& operator<<(std::ostream& out, FencingToken token) {
    return out << token.value;
  }
};

}  // namespace leasehold::inline v0
