#pragma once

#include <chrono>

/// The numbers by which every store runs its waiting lines. lua/include/line.lua has them under the
/// same names; redis_lock_store.cpp does not compile if they differ.
namespace leasehold::inline v0::line_rules {

/// How long a waiter has to confirm an offer.
inline constexpr std::chrono::milliseconds time_to_confirm{1'000};

/// How long a waiter has to answer when it is asked for a sign of life.
inline constexpr std::chrono::milliseconds time_to_answer{400};

/// How often it is asked before it is evicted. More than once, because whoever asked may have been
/// frozen itself.
inline constexpr int most_questions = 2;

/// Places that a waiter gains with each step of priority, and a bit more, so that the higher
/// priority wins a tie.
inline constexpr double overtake = 8.001;

}  // namespace leasehold::inline v0::line_rules
