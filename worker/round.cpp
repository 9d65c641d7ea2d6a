#include "round.hpp"

#include <fmt/format.h>

#include <utility>

namespace leasehold::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t removal_chunk = 1'000;

TaskQueueOptions options_for(const common::QueueConfig& config,
                             std::shared_ptr<spdlog::logger> log) {
  return {
      .postgres = {.connections = 1,  // rounds do one thing at a time
                   .connect_timeout = config.connect_timeout,
                   .command_timeout = config.command_timeout,
                   .schema = config.schema},
      .sqlite = {.timeout = config.command_timeout},
      .logger = std::move(log),
  };
}

}  // namespace

Round::Round(const common::QueueConfig& config, std::shared_ptr<QueueStatus> status,
             std::shared_ptr<spdlog::logger> log)
    : config_(config),
      status_(std::move(status)),
      log_(std::move(log)),
      queue_(config.database, options_for(config, log_)),
      recovery_(queue_, {.max_crashes = config.max_crashes}) {}

std::optional<Measured> Round::run_once() {
  const auto began = steady_clock::now();
  count_retries();  // of a round before that failed
  step_ = "recovery";
  recover();
  step_ = "retention";
  // A mountain of finished tasks must not hold back the next recovery: the rest is for later
  // rounds.
  remove_finished(began + config_.round_interval / 2);
  step_ = "measuring";
  auto measured = measure_if_due();
  count_retries();
  return measured;
}

void Round::count_retries() {
  const auto retries = queue_.stats().retries;
  status_->retried(retries - std::exchange(retries_counted_, retries));
}

/// Counting can become slow, for example while somebody holds vacuum back. Then it is done less
/// often, in a tenth of the time: recovery is more important.
std::optional<Measured> Round::measure_if_due() {
  const auto began = steady_clock::now();
  if (began < next_measuring_) return std::nullopt;
  const auto postpone = [&] {
    const auto took = steady_clock::now() - began;
    if (took > config_.round_interval / 10) next_measuring_ = began + 10 * took;
  };
  try {
    Measured measured = measure();
    postpone();
    warn_of_long_transaction(measured.health);
    return measured;
  } catch (...) {
    postpone();
    throw;
  }
}

std::string Round::describe(const std::exception& error) const {
  return std::string(step_) + ": " + error.what();
}

void Round::recover() {
  const auto began = steady_clock::now();
  const TaskStats before = queue_.stats();
  const auto count = [&] {
    // Not from the report: there is none of what was done before an error.
    const TaskStats after = queue_.stats();
    const auto dead = after.dead - before.dead;
    const auto requeued = after.recovered - before.recovered - dead;
    status_->recovered(requeued, dead);
    const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - began);
    if (requeued + dead > 0) {
      log_->info("leases recovered requeued={} dead={} took_ms={}", requeued, dead, took.count());
    }
  };
  try {
    for (const RecoveredTask& task : recovery_.run_once().tasks) {
      status_->recovered_late_by(task.overdue);
    }
  } catch (...) {
    count();
    throw;
  }
  count();
}

void Round::remove_finished(SteadyTime until) {
  const auto removed = remove(TaskState::completed, config_.retain_completed, until) +
                       remove(TaskState::cancelled, config_.retain_cancelled, until) +
                       remove(TaskState::dead, config_.retain_dead, until);
  if (removed > 0) log_->info("finished tasks removed removed={}", removed);
}

std::uint64_t Round::remove(TaskState state, std::optional<milliseconds> age, SteadyTime until) {
  if (!age) return 0;
  Removal removal{.chunk = removal_chunk, .limit = removal_chunk};
  (state == TaskState::completed   ? removal.completed
   : state == TaskState::cancelled ? removal.cancelled
                                   : removal.dead) = age;
  std::uint64_t sum = 0;
  std::uint64_t removed = 0;
  do {
    removed = queue_.remove_finished(removal);
    status_->removed(state, removed);
    sum += removed;
  } while (removed == removal_chunk && steady_clock::now() < until);
  return sum;
}

Measured Round::measure() {
  const auto counts = queue_.counts(config_.count_limit);
  std::set<std::string> there;
  for (const TaskCount& count : counts) there.insert(count.type);
  // A type keeps its label as long as it has tasks, so that the labels do not jump to and fro.
  std::erase_if(shown_types_, [&](const std::string& type) { return !there.contains(type); });
  for (const std::string& type : there) {
    if (shown_types_.size() >= config_.max_types) break;
    shown_types_.insert(type);
  }
  Measured measured;
  for (const TaskCount& count : counts) {
    const std::string label = shown_types_.contains(count.type) ? count.type : "other";
    measured.tasks[label][count.state] += count.number;
    measured.cut_off = measured.cut_off || count.more;
  }
  measured.health = queue_.health();
  measured.at = Timestamp::now();
  return measured;
}

void Round::warn_of_long_transaction(const QueueHealth& health) {
  const auto& holder = health.oldest_snapshot;
  const bool harmful = holder && holder->age && *holder->age >= config_.long_transaction;
  const std::string who =
      harmful ? fmt::format("{} {} {}", to_string(holder->kind), holder->pid, holder->name) : "";
  if (harmful && harmful_ != who) {
    const std::string cure =
        holder->kind == SnapshotHolder::Kind::prepared
            ? "COMMIT PREPARED or ROLLBACK PREPARED ends it"
            : fmt::format("SELECT pg_terminate_backend({}) ends it", holder->pid);
    log_->warn(
        "long transaction holds back vacuum kind={} pid={} application=\"{}\" user=\"{}\" "
        "open_for_s={} transactions={} dead_rows={} hint=\"{}; see "
        "leasehold_oldest_snapshot_age_seconds and leasehold_dead_tuples\"",
        to_string(holder->kind), holder->pid, holder->name, holder->user,
        std::chrono::floor<std::chrono::seconds>(*holder->age).count(), holder->transactions,
        health.dead_rows, cure);
  }
  if (!harmful && harmful_) log_->info("long transaction is over dead_rows={}", health.dead_rows);
  harmful_ = harmful ? std::optional(who) : std::nullopt;
}

}  // namespace leasehold::worker
