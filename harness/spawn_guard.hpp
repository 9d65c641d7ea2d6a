#pragma once

namespace leasehold::harness {

/// Becomes another program, after the steps that a multi-threaded parent cannot safely do between
/// fork and exec:
///
///     spawn_guard PARENT_PID UID GID WORKING_DIR PROGRAM [ARGUMENT]...
///
/// The program dies with the parent thread that started us. UID and GID of -1 and an empty
/// WORKING_DIR mean "unchanged". File descriptor 3 is where a failure is told: the errno as text;
/// it closes when the program has been started. Other descriptors above 2 are not passed on. The
/// name by which it is called (argv[0]) is spawn_guard_name.
int run_spawn_guard(int argc, char** argv);

inline constexpr const char* spawn_guard_name = "leasehold-spawn-guard";

}  // namespace leasehold::harness
