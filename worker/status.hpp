#pragma once

#include <prometheus/histogram.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config.hpp"
#include "leasehold/queue_health.hpp"
#include "leasehold/recovery.hpp"
#include "leasehold/task_queue.hpp"

namespace leasehold::worker {

// What the rounds write down and the endpoints show. Nobody waits for a server while holding one of
// the mutexes in here: so the endpoints answer whatever the servers do.

using SteadyTime = std::chrono::steady_clock::time_point;
using SystemTime = std::chrono::system_clock::time_point;

/// As metrics and the status page show a time.
inline double in_seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// A moment, for people and for measuring.
struct Moment {
  SteadyTime steady;
  SystemTime system;

  static Moment now() {
    return {std::chrono::steady_clock::now(), std::chrono::system_clock::now()};
  }
};

/// Why something does not work.
struct Problem {
  std::string error;
  Moment since;
};

/// What a round saw in the database.
struct Measured {
  /// Tasks by type and state; types beyond max_types are summed up as "other".
  std::map<std::string, std::map<TaskState, std::uint64_t>> tasks;
  bool cut_off = false;  ///< some type and state has more than count_limit
  QueueHealth health;
  Moment at;
};

/// A queue as it stands at one moment.
struct QueueState {
  QueueConfig config;

  std::uint64_t rounds_completed = 0;
  std::uint64_t rounds_failed = 0;
  std::optional<Moment> under_way_since;  ///< of the round that runs now
  std::optional<Moment> last_completed;   ///< the end of the last round that did all it had to
  std::chrono::milliseconds last_duration{0};
  std::optional<Problem> problem;  ///< of the last round

  std::uint64_t requeued = 0;
  std::uint64_t dead = 0;
  std::map<TaskState, std::uint64_t> removed;
  std::uint64_t retries = 0;
  std::optional<Measured> measured;  ///< by the last round that looked

  /// Why the daemon can not be relied upon for this queue; nothing if it can.
  std::optional<std::string> not_ready(SteadyTime now) const;
};

/// What is known of a queue. Thread-safe.
class QueueStatus {
 public:
  explicit QueueStatus(std::string name);

  /// Rounds will be run by this configuration from now on. Totals stay.
  void configure(const QueueConfig& config);
  /// Whether what is known is of this database and schema.
  bool is_of(const QueueConfig& config) const;

  /// Returns when.
  Moment round_began();
  void round_completed(Moment began, std::optional<Measured> measured);
  /// Returns the problem: since when is that of the first round in a row that failed.
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
  mutable std::mutex mutex_;
  QueueState state_;  // protected by mutex_
};

/// The locks of a Redis as they stand at one moment.
struct RedisState {
  std::string where;
  std::uint64_t held = 0;
  std::uint64_t stale = 0;
  std::uint64_t scans_completed = 0;
  std::uint64_t scans_failed = 0;
  std::optional<Moment> last_completed;
  std::chrono::milliseconds last_duration{0};
  std::optional<Problem> problem;  ///< of the last scan
};

/// What is known of the locks. Thread-safe.
class RedisStatus {
 public:
  explicit RedisStatus(std::string where);

  void scan_completed(std::uint64_t held, std::uint64_t stale, std::chrono::milliseconds duration);
  Problem scan_failed(const std::string& error);
  RedisState state() const;

 private:
  mutable std::mutex mutex_;
  RedisState state_;  // protected by mutex_
};

/// Everything that the endpoints show. Thread-safe.
class Board {
 public:
  const Moment started = Moment::now();

  /// The status of this queue: the one that was there, or a new one. The same name in another
  /// database is another queue, of which nothing is known yet.
  std::shared_ptr<QueueStatus> queue(const QueueConfig& config);
  /// Shows these queues, in this order, and no others.
  void show(std::vector<std::shared_ptr<QueueStatus>> queues, std::shared_ptr<RedisStatus> redis);
  void reloaded(bool accepted);

  std::vector<std::shared_ptr<QueueStatus>> queues() const;
  std::shared_ptr<RedisStatus> redis() const;  ///< null if there is no Redis
  std::uint64_t reloads_accepted() const;
  std::uint64_t reloads_refused() const;

 private:
  mutable std::mutex mutex_;
  // protected by mutex_
  std::vector<std::shared_ptr<QueueStatus>> queues_;
  std::shared_ptr<RedisStatus> redis_;
  std::uint64_t accepted_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace leasehold::worker
