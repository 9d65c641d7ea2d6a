#pragma once

#include <chrono>
#include <cstddef>

namespace leasehold::testing {

// What a worker process of the ledger (tests/faults/tasks/task_ledger_program.cpp) is given, and
// what is demanded of it.

/// Handlers that run at a time, each with a connection of its own.
inline constexpr std::size_t ledger_threads = 4;
/// Connections of its queue.
inline constexpr std::size_t ledger_pool = 2;
/// Those, one for renewals and one that listens.
inline constexpr std::size_t ledger_queue_backends = ledger_pool + 2;

/// Long enough that a busy machine does not lose leases.
inline constexpr std::chrono::milliseconds ledger_lease{3'000};
inline constexpr std::chrono::milliseconds ledger_command_timeout{1'000};

/// No task that is innocent is running so often when its worker is killed.
inline constexpr int ledger_max_crashes = 20;

}  // namespace leasehold::testing
