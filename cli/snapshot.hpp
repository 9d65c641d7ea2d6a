#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "failure.hpp"
#include "leasehold/lock_client.hpp"
#include "leasehold/task_queue.hpp"
#include "stores.hpp"

namespace leasehold::cli {

struct LocksSeen {
  std::uint64_t held = 0;
  std::uint64_t stale = 0;
  std::uint64_t waiting = 0;
  std::vector<LockRecord> records;  ///< the first most_records
  static constexpr std::size_t most_records = 10'000;
};

/// A worker that has leases now.
struct WorkerSeen {
  std::uint64_t leases = 0;
  std::uint64_t expired = 0;
};

struct TasksSeen {
  std::vector<TaskCount> counts;
  QueueHealth health;
  std::map<std::string, WorkerSeen> workers;
  std::uint64_t expired_leases = 0;
  bool leases_cut_off = false;  ///< there are more than most_leases
  static constexpr std::size_t most_leases = 50'000;
};

/// The state of the stores at one moment. A store that did not answer has an error in its place.
struct Snapshot {
  std::string locks_where;  ///< empty if there is no address
  std::optional<LocksSeen> locks;
  std::string locks_error;
  std::string tasks_where;
  std::optional<TasksSeen> tasks;
  std::string tasks_error;
  ExitCode code = ExitCode::done;  ///< the first failure
};

/// Takes snapshots. Keeps its connections in between.
class SnapshotTaker {
 public:
  /// Throws Failure if there is no address of any store.
  explicit SnapshotTaker(const Stores& stores);
  Snapshot take();

 private:
  std::string locks_where_;
  std::string tasks_where_;
  std::optional<LockClient> locks_;
  std::optional<TaskQueue> tasks_;
};

}  // namespace leasehold::cli
