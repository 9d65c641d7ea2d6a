#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "leasehold/export.hpp"

namespace leasehold::inline v0 {

/// Names a task for ever: ids are never used again.
struct TaskId {
  std::int64_t value = 0;

  friend auto operator<=>(const TaskId&, const TaskId&) = default;
  friend std::ostream& operator<<(std::ostream& out, TaskId id) { return out << id.value; }
};

/// Grows by one with every change of a task's state (leased, recovered, completed, …) and with
/// every update(). Who writes names the version it stands on, and is refused if the task has moved
/// on.
struct TaskVersion {
  std::int64_t value = 0;

  friend auto operator<=>(const TaskVersion&, const TaskVersion&) = default;
  friend std::ostream& operator<<(std::ostream& out, TaskVersion v) { return out << v.value; }
};

enum class TaskState {
  pending,    ///< waits for its time and for a worker
  leased,     ///< a worker has it
  completed,  ///< done
  dead,       ///< failed or crashed too often: waits for somebody to look at it
  cancelled,  ///< called off
};

/// For logs and messages.
LEASEHOLD_API const char* to_string(TaskState state) noexcept;

/// A task to be done.
struct NewTask {
  /// Which handler it is for. 1 to 128 bytes of UTF-8 without control characters.
  std::string type;

  /// JSON, kept to the letter. At most TaskQueueOptions::largest_payload bytes. Default: {}.
  std::string payload = "{}";

  /// Higher goes first, among tasks of one type that are due. −1,000,000 to 1,000,000. Each level
  /// in use costs a lease an index look-up, so use a few levels, not a continuum. Default 0.
  int priority = 0;

  /// Not before this time, by the database's clock. Default: now.
  std::optional<std::chrono::system_clock::time_point> run_at;

  /// Not before this much later than `run_at`, or than now by the database's clock. At most 10
  /// years. Default: none.
  std::chrono::milliseconds delay{0};

  /// How often it is tried before it is dead, 1 to 1,000,000. A crashed attempt counts, one given
  /// back by release() does not. Default 10.
  int max_attempts = 10;

  /// While a task with the same key is pending or leased, another one is not added: enqueue()
  /// returns the living one's id. At most 512 bytes; empty, the default, means no such limit. Costs
  /// an index entry.
  std::string unique_key;
};

/// A task as it is in the store. Times are the database's.
struct TaskRecord {
  TaskId id;
  TaskVersion version;
  std::string type;
  TaskState state = TaskState::pending;
  int priority = 0;
  std::string payload;                  ///< JSON
  std::optional<std::string> progress;  ///< JSON, as last reported
  std::optional<std::string> result;    ///< JSON, of a completed task
  std::chrono::system_clock::time_point run_at;
  std::string leased_by;  ///< the worker that has it, or had it when it ended; else empty
  std::optional<std::chrono::system_clock::time_point> lease_expiry;  ///< if leased
  int attempts = 0;  ///< begun, the present one counted
  int max_attempts = 0;
  int crash_count = 0;  ///< leases that expired
  std::string unique_key;
  std::string last_error;
  std::chrono::system_clock::time_point created_at;
  std::chrono::system_clock::time_point updated_at;
  std::optional<std::chrono::system_clock::time_point> finished_at;
};

}  // namespace leasehold::inline v0

template <>
struct std::hash<leasehold::TaskId> {
  std::size_t operator()(leasehold::TaskId id) const noexcept {
    return std::hash<std::int64_t>{}(id.value);
  }
};
