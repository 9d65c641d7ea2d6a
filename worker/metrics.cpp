#include "metrics.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <sstream>

#include "leasehold/version.hpp"

namespace leasehold::worker {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;
using std::chrono::milliseconds;

double seconds_or_0(std::optional<milliseconds> time) { return time ? in_seconds(*time) : 0; }
double unix_time(SystemTime time) {
  return in_seconds(std::chrono::duration_cast<milliseconds>(time.time_since_epoch()));
}

/// One metric with all its labels.
class Family {
 public:
  Family(std::vector<MetricFamily>& all, MetricType type, const char* name, const char* help)
      : all_(all), family_{name, help, type, {}} {}
  /// Shown only if there is something to show.
  ~Family() {
    if (!family_.metric.empty()) all_.push_back(std::move(family_));
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  void add(Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    (family_.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    family_.metric.push_back(std::move(metric));
  }
  void add(Labels labels, std::uint64_t value) {
    add(std::move(labels), static_cast<double>(value));
  }
  void add(Labels labels, ClientMetric histogram) {
    histogram.label = std::move(labels);
    family_.metric.push_back(std::move(histogram));
  }

 private:
  std::vector<MetricFamily>& all_;
  MetricFamily family_;
};

/// The metrics of all queues. A queue that could not be looked at has no gauges from the database:
/// none is better than old ones.
class QueueMetrics {
 public:
  explicit QueueMetrics(std::vector<MetricFamily>& all) : all_(all) {}

  void add(const QueueStatus& status) {
    const QueueState state = status.state();
    const ClientMetric::Label queue{"queue", status.name()};
    const auto with = [&](const char* name, const char* value) {
      return Labels{queue, {name, value}};
    };
    up_.add({queue}, state.rounds_completed > 0 && !state.problem ? 1.0 : 0.0);
    ready_.add({queue}, state.not_ready(std::chrono::steady_clock::now()) ? 0.0 : 1.0);
    rounds_.add(with("outcome", "completed"), state.rounds_completed);
    rounds_.add(with("outcome", "failed"), state.rounds_failed);
    round_durations_.add({queue}, status.round_durations());
    if (state.last_completed) last_round_.add({queue}, unix_time(state.last_completed->system));
    recovered_.add(with("outcome", "requeued"), state.requeued);
    recovered_.add(with("outcome", "dead"), state.dead);
    recovery_delays_.add({queue}, status.recovery_delays());
    for (const auto& [end, number] : state.removed) {
      removed_.add(with("state", to_string(end)), number);
    }
    retries_.add({queue}, state.retries);
    if (state.measured && !state.problem) add_measured(state, queue);
  }

 private:
  void add_measured(const QueueState& state, const ClientMetric::Label& queue) {
    const Measured& measured = *state.measured;
    for (const auto& [type, by_state] : measured.tasks) {
      for (const TaskState task_state :
           {TaskState::pending, TaskState::leased, TaskState::completed, TaskState::dead,
            TaskState::cancelled}) {
        const auto found = by_state.find(task_state);
        tasks_.add({queue, {"type", type}, {"state", to_string(task_state)}},
                   found == by_state.end() ? 0 : found->second);
      }
    }
    count_limit_.add({queue}, state.config.count_limit);
    const QueueHealth& health = measured.health;
    oldest_ready_.add({queue}, seconds_or_0(health.oldest_ready));
    oldest_expired_.add({queue}, seconds_or_0(health.oldest_expired));
    live_.add({queue}, health.live_rows);
    dead_.add({queue}, health.dead_rows);
    const auto& holder = health.oldest_snapshot;
    snapshot_age_.add({queue}, holder ? seconds_or_0(holder->age) : 0.0);
    snapshot_transactions_.add({queue}, holder ? static_cast<double>(holder->transactions) : 0.0);
  }

  std::vector<MetricFamily>& all_;
  Family up_{all_, MetricType::Gauge, "leasehold_database_up",
             "1 if the last round reached the database and did all it had to."};
  Family ready_{all_, MetricType::Gauge, "leasehold_ready",
                "1 if /readyz has no complaint about this queue."};
  Family rounds_{all_, MetricType::Counter, "leasehold_rounds_total", "Rounds, by how they ended."};
  Family round_durations_{all_, MetricType::Histogram, "leasehold_round_duration_seconds",
                          "How long rounds took that completed."};
  Family last_round_{all_, MetricType::Gauge, "leasehold_last_round_timestamp_seconds",
                     "When the last round completed, in Unix time."};
  Family recovered_{all_, MetricType::Counter, "leasehold_recovered_tasks_total",
                    "Expired leases that this daemon took back, by what became of the task."};
  Family recovery_delays_{all_, MetricType::Histogram, "leasehold_recovery_delay_seconds",
                          "From the end of a lease to its recovery by this daemon."};
  Family removed_{all_, MetricType::Counter, "leasehold_removed_tasks_total",
                  "Finished tasks that this daemon removed, by their state."};
  Family retries_{all_, MetricType::Counter, "leasehold_store_retries_total",
                  "Calls that this daemon made again because others were in the way."};
  Family tasks_{all_, MetricType::Gauge, "leasehold_tasks",
                "Tasks by type and state, counted up to leasehold_tasks_count_limit each."};
  Family count_limit_{all_, MetricType::Gauge, "leasehold_tasks_count_limit",
                      "Up to how many tasks of a type and state are counted."};
  Family oldest_ready_{all_, MetricType::Gauge, "leasehold_oldest_ready_age_seconds",
                       "How long the task that is due longest has been due; 0 if none is."};
  Family oldest_expired_{all_, MetricType::Gauge, "leasehold_oldest_expired_lease_age_seconds",
                         "How long ago the oldest lease ended that was not recovered; 0 if none."};
  Family live_{all_, MetricType::Gauge, "leasehold_live_tuples",
               "Live rows of the table of tasks, as PostgreSQL estimates."};
  Family dead_{all_, MetricType::Gauge, "leasehold_dead_tuples",
               "Dead rows of the table of tasks, as PostgreSQL estimates."};
  Family snapshot_age_{
      all_, MetricType::Gauge, "leasehold_oldest_snapshot_age_seconds",
      "How long the oldest transaction has held vacuum back; 0 if none or unknown."};
  Family snapshot_transactions_{all_, MetricType::Gauge,
                                "leasehold_oldest_snapshot_age_transactions",
                                "Transactions since the oldest snapshot that holds vacuum back."};
};

void add_redis(std::vector<MetricFamily>& all, const RedisState& state) {
  Family(all, MetricType::Gauge, "leasehold_redis_up", "1 if the last scan of the locks completed.")
      .add({}, state.last_completed && !state.problem ? 1.0 : 0.0);
  {
    Family scans(all, MetricType::Counter, "leasehold_lock_scans_total",
                 "Scans of the locks, by how they ended.");
    scans.add({{"outcome", "completed"}}, state.scans_completed);
    scans.add({{"outcome", "failed"}}, state.scans_failed);
  }
  if (!state.last_completed || state.problem) return;
  {
    Family locks(all, MetricType::Gauge, "leasehold_locks",
                 "Locks in Redis: held, and stale, whose holder vanished.");
    locks.add({{"state", "held"}}, state.held);
    locks.add({{"state", "stale"}}, state.stale);
  }
  Family(all, MetricType::Gauge, "leasehold_lock_scan_duration_seconds",
         "How long the last scan of the locks took.")
      .add({}, in_seconds(state.last_duration));
}

void add_daemon(std::vector<MetricFamily>& all, const Board& board) {
  Family(all, MetricType::Gauge, "leasehold_build_info", "Always 1; the version is a label.")
      .add({{"version", version()}}, 1.0);
  Family(all, MetricType::Gauge, "leasehold_start_timestamp_seconds",
         "When the daemon started, in Unix time.")
      .add({}, unix_time(board.started.system));
  Family reloads(all, MetricType::Counter, "leasehold_config_reloads_total",
                 "Reloads of the configuration, by outcome.");
  reloads.add({{"outcome", "accepted"}}, board.reloads_accepted());
  reloads.add({{"outcome", "refused"}}, board.reloads_refused());
}

}  // namespace

std::string render_metrics(const Board& board) {
  std::vector<MetricFamily> all;
  add_daemon(all, board);
  {
    QueueMetrics queues(all);
    for (const auto& queue : board.queues()) queues.add(*queue);
  }
  if (const auto redis = board.redis()) add_redis(all, redis->state());
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, all);
  return text.str();
}

}  // namespace leasehold::worker
