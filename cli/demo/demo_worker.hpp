#pragma once

#include <chrono>
#include <cstdint>

#include "failure.hpp"
#include "stores.hpp"

namespace leasehold::cli {

/// What a worker process reports on its standard output, one letter each. It writes them at once,
/// so that SIGKILL loses none.
enum class WorkerNews : char {
  started = 's',      ///< a handler started
  done = 'd',         ///< effect and completion are committed
  lease_lost = 'l',   ///< refused: another worker has the task now
  stale_token = 't',  ///< refused: another worker has had the lock since
  failed = 'f',       ///< anything else: the task is tried again
};

struct DemoWorkerOptions {
  std::size_t concurrency = 2;  ///< bookings at the same time, and as many notes
  std::int64_t accounts = 100;
  std::chrono::milliseconds work{50};  ///< average duration of a task
};

/// How long a crashed worker keeps its tasks and its locks. They differ, so that a frozen worker
/// can lose its lock and still have its task. A lease is long enough for workers that are not
/// frozen to commit in time, even on a busy machine.
inline constexpr std::chrono::milliseconds demo_lease{4'000};
inline constexpr std::chrono::milliseconds demo_lock_ttl{500};

/// The types of the demo's tasks: see Book.
inline constexpr const char* booking_type = "booking";
inline constexpr const char* note_type = "note";

/// Runs a worker of the demo until SIGTERM.
ExitCode run_demo_worker(const Stores& stores, const DemoWorkerOptions& options);

}  // namespace leasehold::cli
