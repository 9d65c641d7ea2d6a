#include "status.hpp"

#include <algorithm>

#include "common/values.hpp"

namespace leasehold::worker {
namespace {

using std::chrono::milliseconds;

milliseconds rounded(std::chrono::steady_clock::duration time) {
  return std::chrono::duration_cast<milliseconds>(time);
}

const prometheus::Histogram::BucketBoundaries duration_buckets{
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
const prometheus::Histogram::BucketBoundaries delay_buckets{0.1, 0.25, 0.5, 1,  2,   3,   5,
                                                            7.5, 10,   20,  60, 300, 3600};

}  // namespace

std::optional<std::string> QueueState::not_ready(SteadyTime now) const {
  std::string under_way;
  if (under_way_since) {
    const auto time = rounded(now - under_way_since->steady);
    under_way = "; a round has been under way for " + std::to_string(time.count()) + " ms";
  }
  if (problem) return "the last round failed: " + problem->error;
  if (!last_completed) return "no round has ended yet" + under_way;
  const auto age = rounded(now - last_completed->steady);
  if (age > config.round_age_limit()) {
    return "the last round must have ended less than " +
           common::format_duration(config.round_age_limit()) + " ago, it ended " +
           std::to_string(age.count()) + " ms ago" + under_way;
  }
  return std::nullopt;
}

QueueStatus::QueueStatus(std::string name)
    : name_(std::move(name)), round_durations_(duration_buckets), recovery_delays_(delay_buckets) {
  // All counters exist from the beginning, at 0.
  for (const TaskState end : {TaskState::completed, TaskState::cancelled, TaskState::dead}) {
    state_.removed[end] = 0;
  }
}

void QueueStatus::configure(const common::QueueConfig& config) {
  const ThreadLock guard(mutex_);
  state_.config = config;
}

bool QueueStatus::is_of(const common::QueueConfig& config) const {
  const ThreadLock guard(mutex_);
  return config.name == name_ && config.database == state_.config.database &&
         config.schema == state_.config.schema;
}

Timestamp QueueStatus::round_began() {
  const ThreadLock guard(mutex_);
  return state_.under_way_since.emplace(Timestamp::now());
}

void QueueStatus::round_completed(Timestamp began, std::optional<Measured> measured) {
  const ThreadLock guard(mutex_);
  const Timestamp now = Timestamp::now();
  state_.last_duration = rounded(now.steady - began.steady);
  state_.under_way_since.reset();
  state_.last_completed = now;
  state_.problem.reset();
  if (measured) state_.measured = std::move(measured);
  ++state_.rounds_completed;
  round_durations_.Observe(in_seconds(state_.last_duration));
}

Problem QueueStatus::round_failed(const std::string& error) {
  const ThreadLock guard(mutex_);
  const Timestamp now = Timestamp::now();
  state_.under_way_since.reset();
  state_.problem = {error, state_.problem ? state_.problem->since : now};
  ++state_.rounds_failed;
  return *state_.problem;
}

void QueueStatus::recovered(std::uint64_t requeued, std::uint64_t dead) {
  const ThreadLock guard(mutex_);
  state_.requeued += requeued;
  state_.dead += dead;
}

void QueueStatus::recovered_late_by(milliseconds overdue) {
  recovery_delays_.Observe(in_seconds(overdue));
}

void QueueStatus::removed(TaskState state, std::uint64_t number) {
  const ThreadLock guard(mutex_);
  state_.removed[state] += number;
}

void QueueStatus::retried(std::uint64_t number) {
  const ThreadLock guard(mutex_);
  state_.retries += number;
}

QueueState QueueStatus::state() const {
  const ThreadLock guard(mutex_);
  return state_;
}

RedisStatus::RedisStatus(std::string where) { state_.where = std::move(where); }

void RedisStatus::scan_completed(std::uint64_t held, std::uint64_t stale, milliseconds duration) {
  const ThreadLock guard(mutex_);
  state_.held = held;
  state_.stale = stale;
  state_.last_completed = Timestamp::now();
  state_.last_duration = duration;
  state_.problem.reset();
  ++state_.scans_completed;
}

Problem RedisStatus::scan_failed(const std::string& error) {
  const ThreadLock guard(mutex_);
  state_.problem = {error, state_.problem ? state_.problem->since : Timestamp::now()};
  ++state_.scans_failed;
  return *state_.problem;
}

RedisState RedisStatus::state() const {
  const ThreadLock guard(mutex_);
  return state_;
}

std::shared_ptr<QueueStatus> DaemonStatus::queue(const common::QueueConfig& config) {
  const ThreadLock guard(mutex_);
  const auto found = std::ranges::find_if(queues_, [&](const auto& q) { return q->is_of(config); });
  return found == queues_.end() ? std::make_shared<QueueStatus>(config.name) : *found;
}

void DaemonStatus::show(std::vector<std::shared_ptr<QueueStatus>> queues,
                        std::shared_ptr<RedisStatus> redis) {
  const ThreadLock guard(mutex_);
  queues_ = std::move(queues);
  redis_ = std::move(redis);
}

void DaemonStatus::reloaded(bool accepted) {
  const ThreadLock guard(mutex_);
  ++(accepted ? accepted_ : refused_);
}

std::vector<std::shared_ptr<QueueStatus>> DaemonStatus::queues() const {
  const ThreadLock guard(mutex_);
  return queues_;
}

std::shared_ptr<RedisStatus> DaemonStatus::redis() const {
  const ThreadLock guard(mutex_);
  return redis_;
}

std::uint64_t DaemonStatus::reloads_accepted() const {
  const ThreadLock guard(mutex_);
  return accepted_;
}

std::uint64_t DaemonStatus::reloads_refused() const {
  const ThreadLock guard(mutex_);
  return refused_;
}

}  // namespace leasehold::worker
