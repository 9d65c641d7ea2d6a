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

/// One metric, with a value for each combination of labels.
class Family {
 public:
  Family(std::vector<MetricFamily>& all, MetricType type, const char* name, const char* help)
      : all_(all), family_{name, help, type, {}} {}
  /// Adds the metric to `all`, unless it has no values.
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

/// The metrics of all queues. A queue whose last round failed has no values from its database: none
/// is better than an old one.
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
    recovered_.add({queue, {"outcome", "requeued"}}, health.recovered_requeued);
    recovered_.add({queue, {"outcome", "dead"}}, health.recovered_dead);
    live_.add({queue}, health.live_rows);
    dead_.add({queue}, health.dead_rows);
    const auto& holder = health.oldest_snapshot;
    snapshot_age_.add({queue}, holder ? seconds_or_0(holder->age) : 0.0);
    snapshot_transactions_.add({queue}, holder ? static_cast<double>(holder->transactions) : 0.0);
  }

  std::vector<MetricFamily>& all_;
  Family up_{all_, MetricType::Gauge, "leasehold_database_up", "1 if the last round succeeded."};
  Family ready_{all_, MetricType::Gauge, "leasehold_ready",
                "1 if /readyz reports no problem with this queue."};
  Family rounds_{all_, MetricType::Counter, "leasehold_rounds_total", "Rounds, by outcome."};
  Family round_durations_{all_, MetricType::Histogram, "leasehold_round_duration_seconds",
                          "Duration of completed rounds."};
  Family last_round_{all_, MetricType::Gauge, "leasehold_last_round_timestamp_seconds",
                     "When the last round completed, in Unix time."};
  Family recovered_{all_, MetricType::Counter, "leasehold_recovered_tasks_total",
                    "Expired leases that any process recovered, by what became of the task. "
                    "Every daemon reports the same number."};
  Family recovery_delays_{all_, MetricType::Histogram, "leasehold_recovery_delay_seconds",
                          "Time from the expiry of a lease to its recovery by this daemon."};
  Family removed_{all_, MetricType::Counter, "leasehold_removed_tasks_total",
                  "Finished tasks that this daemon removed, by state."};
  Family retries_{all_, MetricType::Counter, "leasehold_store_retries_total",
                  "Calls that this daemon repeated because of conflicts with others."};
  Family tasks_{all_, MetricType::Gauge, "leasehold_tasks",
                "Tasks by type and state, counted up to leasehold_tasks_count_limit each."};
  Family count_limit_{all_, MetricType::Gauge, "leasehold_tasks_count_limit",
                      "Tasks of one type and state are counted up to this number."};
  Family oldest_ready_{all_, MetricType::Gauge, "leasehold_oldest_ready_age_seconds",
                       "How long the oldest ready task has been due; 0 if there is none."};
  Family oldest_expired_{
      all_, MetricType::Gauge, "leasehold_oldest_expired_lease_age_seconds",
      "Age of the oldest expired lease that is not recovered; 0 if there is none."};
  Family live_{all_, MetricType::Gauge, "leasehold_live_tuples",
               "Live rows of the tasks table, estimated by PostgreSQL."};
  Family dead_{all_, MetricType::Gauge, "leasehold_dead_tuples",
               "Dead rows of the tasks table, estimated by PostgreSQL."};
  Family snapshot_age_{
      all_, MetricType::Gauge, "leasehold_oldest_snapshot_age_seconds",
      "How long the oldest transaction has held back vacuum; 0 if none or unknown."};
  Family snapshot_transactions_{all_, MetricType::Gauge,
                                "leasehold_oldest_snapshot_age_transactions",
                                "Transactions since the oldest snapshot that holds back vacuum."};
};

void add_redis(std::vector<MetricFamily>& all, const RedisState& state) {
  Family(all, MetricType::Gauge, "leasehold_redis_up", "1 if the last scan of the locks completed.")
      .add({}, state.last_completed && !state.problem ? 1.0 : 0.0);
  {
    Family scans(all, MetricType::Counter, "leasehold_lock_scans_total",
                 "Scans of the locks, by outcome.");
    scans.add({{"outcome", "completed"}}, state.scans_completed);
    scans.add({{"outcome", "failed"}}, state.scans_failed);
  }
  if (!state.last_completed || state.problem) return;
  {
    Family locks(all, MetricType::Gauge, "leasehold_locks",
                 "Locks in Redis. A stale one expired without a release.");
    locks.add({{"state", "held"}}, state.held);
    locks.add({{"state", "stale"}}, state.stale);
  }
  Family(all, MetricType::Gauge, "leasehold_lock_scan_duration_seconds",
         "Duration of the last scan of the locks.")
      .add({}, in_seconds(state.last_duration));
}

void add_daemon(std::vector<MetricFamily>& all, const DaemonStatus& status) {
  Family(all, MetricType::Gauge, "leasehold_build_info", "Always 1; the version is a label.")
      .add({{"version", version()}}, 1.0);
  Family(all, MetricType::Gauge, "leasehold_start_timestamp_seconds",
         "When the daemon started, in Unix time.")
      .add({}, unix_time(status.started.system));
  Family reloads(all, MetricType::Counter, "leasehold_config_reloads_total",
                 "Reloads of the configuration, by outcome.");
  reloads.add({{"outcome", "accepted"}}, status.reloads_accepted());
  reloads.add({{"outcome", "refused"}}, status.reloads_refused());
}

}  // namespace

std::string render_metrics(const DaemonStatus& status) {
  std::vector<MetricFamily> all;
  add_daemon(all, status);
  {
    QueueMetrics queues(all);
    for (const auto& queue : status.queues()) queues.add(*queue);
  }
  if (const auto redis = status.redis()) add_redis(all, redis->state());
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, all);
  return text.str();
}

}  // namespace leasehold::worker
