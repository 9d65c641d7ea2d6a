#pragma once

namespace leasehold::harness {

/// Becomes another program, after the steps that a multi-threaded parent cannot safely do between
/// fork and exec:
///
///     spawn_guard PARENT_PID UID GID WORKING_DIR PROGRAM [ARGUMENT]...
///
/// The kernel kills the program when the parent thread that started us ends. UID and GID of -1 and
/// an empty WORKING_DIR mean "unchanged". A failure is reported on file descriptor 3: the errno as
/// text. It closes when the program has been started. Other descriptors above 2 are not passed on.
/// argv[0] is spawn_guard_name.
int run_spawn_guard(int argc, char** argv);

inline constexpr const char* spawn_guard_name = "leasehold-spawn-guard";

}  // namespace leasehold::harness
