#pragma once

#include <chrono>
#include <string>

namespace leasehold::sqlite {

// SQLite has no server whose clock could judge. What all processes of a machine share, and nobody
// can set, is the time since the kernel was started: leases are judged by it. It goes on while the
// machine sleeps. It means nothing after a new start, which the boot id tells: by then every holder
// is dead.

/// Since the machine was started.
std::chrono::milliseconds since_boot();

/// Which start that was: the same for all processes until the next one.
const std::string& boot_id();

/// The time of day, which may jump: shown to people, and the seed of tokens.
std::chrono::microseconds wall_clock();

}  // namespace leasehold::sqlite
