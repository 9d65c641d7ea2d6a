#pragma once

#include <prometheus/histogram.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/config.hpp"
#include "leasehold/queue_health.hpp"
#include "leasehold/recovery.hpp"
#include "leasehold/task_queue.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::worker {

// What the rounds record and the endpoints show. No thread waits for a server while it holds one of
// these mutexes, so the endpoints answer even if all servers hang.

using SteadyTime = std::chrono::steady_clock::time_point;
using SystemTime = std::chrono::system_clock::time_point;

/// How metrics and the status page show a duration.
inline double in_seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// A point in time on two clocks: the steady one for measuring, the other one for people.
struct Timestamp {
  SteadyTime steady;
  SystemTime system;

  static Timestamp now() {
    return {std::chrono::steady_clock::now(), std::chrono::system_clock::now()};
  }
};

/// Why something does not work, and since when.
struct Problem {
  std::string error;
  Timestamp since;
};

/// What a round found in the database.
struct Measured {
  /// Tasks by type and state; types beyond max_types are summed up as "other".
  std::map<std::string, std::map<TaskState, std::uint64_t>> tasks;
  bool cut_off = false;  ///< some type and state has more tasks than count_limit
  QueueHealth health;
  Timestamp at;
};

/// A copy of what is known about a queue.
struct QueueState {
  common::QueueConfig config;

  std::uint64_t rounds_completed = 0;
  std::uint64_t rounds_failed = 0;
  std::optional<Timestamp> under_way_since;  ///< when the round that runs now began
  std::optional<Timestamp> last_completed;   ///< the end of the last round that succeeded
  std::chrono::milliseconds last_duration{0};
  std::optional<Problem> problem;  ///< if the last round failed

  std::uint64_t requeued = 0;
  std::uint64_t dead = 0;
  std::map<TaskState, std::uint64_t> removed;
  std::uint64_t retries = 0;
  std::optional<Measured> measured;  ///< by the last round that measured

  /// Why the daemon is not ready for this queue; nothing if it is.
  std::optional<std::string> not_ready(SteadyTime now) const;
};

/// What is known about a queue. Thread-safe.
class QueueStatus {
 public:
  explicit QueueStatus(std::string name);

  /// Sets the configuration of the rounds from now on. Totals stay.
  void configure(const common::QueueConfig& config);
  /// Whether this is the status of the configuration's database and schema.
  bool is_of(const common::QueueConfig& config) const;

  /// Returns the time of the beginning.
  Timestamp round_began();
  void round_completed(Timestamp began, std::optional<Measured> measured);
  /// Returns the problem. It began with the first of the rounds that failed in a row.
  Problem round_failed(const std::string& error);

  void recovered(std::uint64_t requeued, std::uint64_t dead);
  void recovered_late_by(std::chrono::milliseconds overdue);
  void removed(TaskState state, std::uint64_t number);
  void retried(std::uint64_t number);

  const std::string& name() const { return name_; }
  QueueState state() const;
  prometheus::ClientMetric round_durations() const { return round_durations_.Collect(); }
  prometheus::ClientMetric recovery_delays() const { return recovery_delays_.Collect(); }

 private:
  const std::string name_;
  prometheus::Histogram round_durations_;
  prometheus::Histogram recovery_delays_;
  mutable ThreadMutex mutex_;
  QueueState state_ LEASEHOLD_GUARDED_BY(mutex_);
};

/// A copy of what is known about the locks in a Redis.
struct RedisState {
  std::string where;
  std::uint64_t held = 0;
  std::uint64_t stale = 0;
  std::uint64_t scans_completed = 0;
  std::uint64_t scans_failed = 0;
  std::optional<Timestamp> last_completed;
  std::chrono::milliseconds last_duration{0};
  std::optional<Problem> problem;  ///< if the last scan failed
};

/// What is known about the locks. Thread-safe.
class RedisStatus {
 public:
  explicit RedisStatus(std::string where);

  void scan_completed(std::uint64_t held, std::uint64_t stale, std::chrono::milliseconds duration);
  Problem scan_failed(const std::string& error);
  RedisState state() const;

 private:
  mutable ThreadMutex mutex_;
  RedisState state_ LEASEHOLD_GUARDED_BY(mutex_);
};

/// Everything that the endpoints show. Thread-safe.
class DaemonStatus {
 public:
  const Timestamp started = Timestamp::now();

  /// Returns the status of this queue, which may be new. The same name in another database is
  /// another queue.
  std::shared_ptr<QueueStatus> queue(const common::QueueConfig& config);
  /// Shows these queues, in this order, and no others.
  void show(std::vector<std::shared_ptr<QueueStatus>> queues, std::shared_ptr<RedisStatus> redis);
  void reloaded(bool accepted);

  std::vector<std::shared_ptr<QueueStatus>> queues() const;
  std::shared_ptr<RedisStatus> redis() const;  ///< null if there is no Redis
  std::uint64_t reloads_accepted() const;
  std::uint64_t reloads_refused() const;

 private:
  mutable ThreadMutex mutex_;
  std::vector<std::shared_ptr<QueueStatus>> queues_ LEASEHOLD_GUARDED_BY(mutex_);
  std::shared_ptr<RedisStatus> redis_ LEASEHOLD_GUARDED_BY(mutex_);
  std::uint64_t accepted_ LEASEHOLD_GUARDED_BY(mutex_) = 0;
  std::uint64_t refused_ LEASEHOLD_GUARDED_BY(mutex_) = 0;
};

}  // namespace leasehold::worker
