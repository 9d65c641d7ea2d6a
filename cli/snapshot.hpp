#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "exit_code.hpp"
#include "leasehold/lock_client.hpp"
#include "leasehold/task_queue.hpp"
#include "stores.hpp"
#include "terminal.hpp"

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
  bool leases_cut_off = false;  ///< there are more than were looked at
};

/// How the stores fare at one moment. What could not be looked at has an error in its place.
struct Snapshot {
  std::string locks_where;  ///< empty if nobody said where
  std::optional<LocksSeen> locks;
  std::string locks_error;
  std::string tasks_where;
  std::optional<TasksSeen> tasks;
  std::string tasks_error;
  ExitCode code = ExitCode::done;  ///< the first failure
};

/// Keeps its connections between looks.
class Observer {
 public:
  /// Throws Failure if nobody said where anything is.
  explicit Observer(const Stores& stores);
  Snapshot look();

 private:
  std::string locks_where_;
  std::string tasks_where_;
  std::optional<LockClient> locks_;
  std::optional<TaskQueue> tasks_;
};

nlohmann::ordered_json as_json(const Snapshot& snapshot);

/// What rows are sorted by.
enum class SortBy { name, number };

/// One screen for people. `rows`: of each table, at most.
std::string render(const Snapshot& snapshot, const Terminal& terminal, std::size_t rows,
                   SortBy sort_by = SortBy::name);

}  // namespace leasehold::cli
