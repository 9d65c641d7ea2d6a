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

/// Identifies a task. Ids are never reused.
struct TaskId {
  std::int64_t value = 0;

  friend auto operator<=>(const TaskId&, const TaskId&) = default;
  friend std::ostream& operator<<(std::ostream& out, TaskId id) { return out << id.value; }
};

/// Grows by one whenever a task changes its state (leased, recovered, completed, …) and with every
/// update(). Every write names the version that it is based on, and is refused if the task has
/// changed since.
struct TaskVersion {
  std::int64_t value = 0;

  friend auto operator<=>(const TaskVersion&, const TaskVersion&) = default;
  friend std::ostream& operator<<(std::ostream& out, TaskVersion v) { return out << v.value; }
};

enum class TaskState {
  pending,    ///< waits until it is due and a worker leases it
  leased,     ///< a worker holds its lease
  completed,  ///< done
  dead,       ///< failed or crashed too often; a person has to look at it
  cancelled,  ///< cancelled by TaskQueue::cancel()
};

/// For logs and messages.
LEASEHOLD_API const char* to_string(TaskState state) noexcept;

/// A task to be added to a queue.
struct NewTask {
  /// Selects the handler. 1 to 128 bytes of UTF-8 without control characters.
  std::string type;

  /// JSON, stored byte for byte. At most TaskQueueOptions::largest_payload bytes. Default: {}.
  std::string payload = "{}";

  /// Among the tasks of one type that are due, those with a higher priority are leased first.
  /// −1,000,000 to 1,000,000. Each priority in use costs every lease one index look-up, so use a
  /// few levels and not a continuum. Default 0.
  int priority = 0;

  /// The task is due at this time, by the store's clock. Default: now.
  std::optional<std::chrono::system_clock::time_point> run_at;

  /// Added to `run_at`, or to the store's present time if there is no `run_at`. At most 10 years.
  /// Default: no delay.
  std::chrono::milliseconds delay{0};

  /// After this many failed attempts the task is dead, 1 to 1,000,000. An attempt whose worker
  /// crashed counts; one that was given back by release() does not. Default 10.
  int max_attempts = 10;

  /// While a task with the same key is pending or leased, enqueue() adds no second one and returns
  /// the id of the first. At most 512 bytes. Costs an index entry. Default: empty, which means that
  /// the task is always added.
  std::string unique_key;
};

/// A task as the store has it. All times are by the store's clock.
struct TaskRecord {
  TaskId id;
  TaskVersion version;
  std::string type;
  TaskState state = TaskState::pending;
  int priority = 0;
  std::string payload;                  ///< JSON
  std::optional<std::string> progress;  ///< JSON, as last reported by a worker
  std::optional<std::string> result;    ///< JSON, of a completed task
  std::chrono::system_clock::time_point run_at;
  /// The worker that holds the lease, or held it when the task ended. Otherwise empty.
  std::string leased_by;
  /// When its last lease began, also if that has ended.
  std::optional<std::chrono::system_clock::time_point> leased_at;
  /// Set while the task is leased.
  std::optional<std::chrono::system_clock::time_point> lease_expiry;
  int attempts = 0;  ///< attempts begun, including the present one
  int max_attempts = 0;
  int crash_count = 0;  ///< crashes since the last attempt that ended in order
  std::string unique_key;
  std::string last_error;  ///< of the last failed attempt or expired lease
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
