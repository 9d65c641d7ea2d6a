#pragma once

#include <chrono>
#include <cstdint>

#include "exit_code.hpp"
#include "stores.hpp"

namespace leasehold::cli {

/// What a worker process says on its standard output, a letter each: written at once, so that a
/// SIGKILL loses none.
enum class WorkerNews : char {
  started = 's',      ///< a handler
  done = 'd',         ///< effect and completion are committed
  lease_lost = 'l',   ///< refused: the task was given to somebody else meanwhile
  stale_token = 't',  ///< refused: the lock was
  failed = 'f',       ///< anything else: the task is tried again
};

struct DemoWorkerOptions {
  std::size_t concurrency = 2;  ///< bookings at a time, and as many notes
  std::int64_t accounts = 100;
  std::chrono::milliseconds work{50};  ///< of a task, on the average
};

/// How long a crashed worker's tasks and locks stay its own. Of different length, so that a frozen
/// one can lose its lock and still have its task. A lease outlasts all others' commits on a machine
/// that is busy: if those who are not frozen lost theirs, little would ever be done.
inline constexpr std::chrono::milliseconds demo_lease{4'000};
inline constexpr std::chrono::milliseconds demo_lock_ttl{500};

/// The types of the demo's tasks: see Book.
inline constexpr const char* booking_type = "booking";
inline constexpr const char* note_type = "note";

/// A worker of the demo: works until SIGTERM.
ExitCode run_demo_worker(const Stores& stores, const DemoWorkerOptions& options);

}  // namespace leasehold::cli
