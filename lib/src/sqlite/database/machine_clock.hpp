#pragma once

#include <chrono>
#include <string>

#include "support/internal_api.hpp"

namespace leasehold::inline v0::sqlite {

// SQLite has no server whose clock could judge. What all processes of a machine share, and nobody
// can set, is the time since the kernel was started: leases are judged by it. It means nothing
// after a new start, which the boot id tells: by then every holder is dead.
//
// It stands still while the machine sleeps, as std::chrono::steady_clock does, by which a holder
// counts how long it may trust its lease. With a clock that goes on, a machine that wakes up could
// have a holder that still trusts its lease and another process that has seen it end.

/// Since the machine was started, sleep not counted.
LEASEHOLD_INTERNAL_API std::chrono::milliseconds since_boot();
LEASEHOLD_INTERNAL_API std::chrono::microseconds since_boot_in_us();

/// Which start that was: the same for all processes until the next one.
const std::string& boot_id();

/// The time of day, which may jump: shown to people, and the seed of tokens.
LEASEHOLD_INTERNAL_API std::chrono::microseconds wall_clock();

}  // namespace leasehold::inline v0::sqlite
