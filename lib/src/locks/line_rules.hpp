#pragma once

#include <chrono>

/// The numbers by which every store runs its waiting lines. lua/include/line.lua has them under the
/// same names; redis_lock_store.cpp does not compile if they differ.
namespace leasehold::inline v0::line_rules {

/// A client that waits in a line with others shows itself once a second. If it was not seen for
/// this long, its waiters are passed over when their turn comes, and an offer to one of them ends.
inline constexpr std::chrono::milliseconds time_to_show{2'000};

/// Places that a waiter gains with each step of priority, and a bit more, so that the higher
/// priority wins a tie.
inline constexpr double overtake = 8.001;

}  // namespace leasehold::inline v0::line_rules
