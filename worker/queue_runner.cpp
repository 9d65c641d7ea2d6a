#include "queue_runner.hpp"

#include <algorithm>

#include "support/log_event.hpp"
#include "support/random.hpp"
#include "support/sleep.hpp"

namespace leasehold::worker {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Shortens the interval by up to a quarter, so that many daemons drift apart. It is never
/// lengthened, because it is the longest time that an expired lease has to wait.
milliseconds with_jitter(milliseconds interval) {
  const double share = 1.0 - random_share() / 4;
  return milliseconds{
      static_cast<milliseconds::rep>(static_cast<double>(interval.count()) * share)};
}

}  // namespace

QueueRunner::QueueRunner(const common::QueueConfig& config, std::shared_ptr<QueueStatus> status,
                         std::shared_ptr<spdlog::logger> log)
    : config_(config),
      status_(std::move(status)),
      log_(std::move(log)),
      round_(std::in_place, config_, status_, log_),
      backoff_(std::min<milliseconds>(250ms, config_.round_interval), config_.round_interval) {
  status_->configure(config_);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void QueueRunner::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) sleep_until(run_round(stop), stop);
  round_.reset();  // closes its connection now, however long this runner is kept
  finished_ = true;
}

SteadyTime QueueRunner::run_round(const std::stop_token& stop) {
  const Timestamp began = status_->round_began();
  try {
    std::optional<Measured> measured = round_->run();
    // A runner that was replaced while a server hung must not overwrite its successor's status.
    if (!stop.stop_requested()) status_->round_completed(began, std::move(measured));
    outage_.over(*log_);
    backoff_.reset();
    return began.steady + with_jitter(config_.round_interval);
  } catch (const std::exception& error) {
    if (!stop.stop_requested()) {
      outage_.failed(*log_, error, status_->round_failed(round_->describe(error)));
    }
  }
  return steady_clock::now() + backoff_.next();
}

bool run_one_round(const common::QueueConfig& config, std::shared_ptr<spdlog::logger> log) {
  const auto status = std::make_shared<QueueStatus>(config.name);
  Round round(config, status, log);
  try {
    round.run();
  } catch (const std::exception& error) {
    Outage(round_outage).failed(*log, error, status->round_failed(round.describe(error)));
    return false;
  }
  const QueueState state = status->state();
  log_info(
      *log, "round done",
      {{"requeued", state.requeued},
       {"dead", state.dead},
       {"removed", state.removed.at(TaskState::completed) + state.removed.at(TaskState::cancelled) +
                       state.removed.at(TaskState::dead)}});
  return true;
}

}  // namespace leasehold::worker
