#pragma once

#include <chrono>
#include <string>

#include "support/internal_api.hpp"

namespace leasehold::inline v0::sqlite {

// SQLite has no server whose clock could decide when grants and leases expire. The clock here is
// the time since the kernel was started: all processes of a machine share it, and nobody can set
// it. It means nothing after a reboot, which the boot id shows; no holder survives a reboot.
//
// It goes on while the machine is suspended, as does BootClock, by which a holder counts how long
// it may trust its grant or lease.

/// Since the machine was started.
LEASEHOLD_INTERNAL_API std::chrono::milliseconds since_boot();
LEASEHOLD_INTERNAL_API std::chrono::microseconds since_boot_in_us();

/// Which start that was: the same for all processes until the next one.
const std::string& boot_id();

/// The time of day, which may jump: shown to people, and the seed of tokens.
LEASEHOLD_INTERNAL_API std::chrono::microseconds wall_clock();

}  // namespace leasehold::inline v0::sqlite
