#pragma once

#include <compare>
#include <cstdint>
#include <ostream>

namespace leasehold::inline v0 {

/// Grows with every grant of a lock, and does not go back even if Redis loses all its data. (It
/// does if Redis goes on with *older* data: a replica or a copy that missed the latest grants.)
/// Hand it to whatever the lock protects and refuse there anything that comes with a smaller one:
/// that closes the gap that every lock with a time limit has.
struct FencingToken {
  std::uint64_t value = 0;

  friend auto operator<=>(const FencingToken&, const FencingToken&) = default;
  friend std::ostream& operator<<(std::ostream& out, FencingToken token) {
    return out << token.value;
  }
};

}  // namespace leasehold::inline v0
