#include "round.hpp"
#include "support/log_event.hpp"

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

milliseconds::rep milliseconds_since(SteadyTime began) {
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - began).count();
}

}  // namespace

Round::Round(const common::QueueConfig& config, std::shared_ptr<QueueStatus> status,
             std::shared_ptr<spdlog::logger> log)
    : config_(config), status_(std::move(status)), log_(std::move(log)) {}

std::optional<Measured> Round::run() {
  const auto began = steady_clock::now();
  done_ = {};
  step_ = "opening";
  if (!queue_) open();
  count_retries();  // of an earlier round that failed
  step_ = "recovery";
  recover();
  step_ = "retention";
  // Many finished tasks must not delay the next recovery: later rounds remove the rest.
  remove_finished(began + config_.round_interval / 2);
  step_ = "measuring";
  auto measured = measure_if_due();
  count_retries();
  log_debug(*log_, "round ended",
            {{"took_ms", milliseconds_since(began)},
             {"requeued", done_.requeued},
             {"dead", done_.dead},
             {"removed", done_.removed},
             {"measured", measured ? "yes" : "no"}});
  return measured;
}

void Round::open() {
  queue_.emplace(config_.database, options_for(config_, log_));
  log_debug(*log_, "database opened", {{"where", queue_->where()}});
}

void Round::count_retries() {
  const auto retries = queue_->stats().retries;
  status_->retried(retries - std::exchange(retries_counted_, retries));
}

/// Measuring can become slow, for example while a long transaction holds back vacuum. It is then
/// done less often, so that it takes at most a tenth of the time: recovery is more important.
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
  const auto log_result = [&] {
    if (done_.requeued + done_.dead == 0) return;
    log_info(*log_, "leases recovered",
             {{"requeued", done_.requeued},
              {"dead", done_.dead},
              {"took_ms", milliseconds_since(began)}});
  };
  try {
    Recovery(*queue_, {.max_crashes = config_.max_crashes})
        .recover_in_batches([&](const RecoveryReport& batch) {
          done_.requeued += batch.requeued;
          done_.dead += batch.dead;
          status_->recovered(batch.requeued, batch.dead);
          for (const RecoveredTask& task : batch.tasks) status_->recovered_late_by(task.overdue);
        });
  } catch (...) {
    log_result();  // the batches before the error are recovered
    throw;
  }
  log_result();
}

void Round::remove_finished(SteadyTime until) {
  done_.removed = remove(TaskState::completed, config_.retain_completed, until) +
                  remove(TaskState::cancelled, config_.retain_cancelled, until) +
                  remove(TaskState::dead, config_.retain_dead, until);
  if (done_.removed > 0) log_info(*log_, "finished tasks removed", {{"removed", done_.removed}});
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
    removed = queue_->remove_finished(removal);
    status_->removed(state, removed);
    sum += removed;
    // It can be more than were asked for: days are dropped as a whole.
  } while (removed >= removal_chunk && steady_clock::now() < until);
  return sum;
}

Measured Round::measure() {
  const auto counts = queue_->counts(config_.count_limit);
  std::set<std::string> there;
  for (const TaskCount& count : counts) there.insert(count.type);
  // A type keeps its label as long as it has tasks, so that labels do not change all the time.
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
  measured.health = queue_->health();
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
    log_warn(*log_, "long transaction holds back vacuum",
             {{"kind", to_string(holder->kind)},
              {"pid", holder->pid},
              {"application", holder->name},
              {"user", holder->user},
              {"open_for_s", std::chrono::floor<std::chrono::seconds>(*holder->age).count()},
              {"transactions", holder->transactions},
              {"dead_rows", health.dead_rows},
              {"hint", cure + "; see leasehold_oldest_snapshot_age_seconds and "
                              "leasehold_dead_tuples"}});
  }
  if (!harmful && harmful_) {
    log_info(*log_, "long transaction is over", {{"dead_rows", health.dead_rows}});
  }
  harmful_ = harmful ? std::optional(who) : std::nullopt;
}

}  // namespace leasehold::worker
