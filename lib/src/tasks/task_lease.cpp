#include "leasehold/task_lease.hpp"

#include <spdlog/logger.h>

#include <utility>

#include "support/log_event.hpp"
#include "tasks/queue_core.hpp"
#include "tasks/validation.hpp"

namespace leasehold::inline v0 {

using std::chrono::milliseconds;

TaskLease::State::State(std::shared_ptr<QueueCore> queue, LeasedTask leased,
                        const LeaseRequest& request, Clock::time_point trusted_until)
    : HeldLease(std::move(leased), LeaseStage::held, trusted_until),
      core(std::move(queue)),
      worker(request.worker),
      duration(request.duration) {
  started = true;  // whatever the store thinks: the caller has it
}

LeaseWrite TaskLease::State::end(WriteResult result, const char* during) {
  if (result == WriteResult::stale) return lose(during);
  stage = LeaseStage::ended;
  valid_until = Clock::time_point{};
  return LeaseWrite::accepted;
}

LeaseWrite TaskLease::State::lose(const char* during) {
  stage = LeaseStage::ended;
  valid_until = Clock::time_point{};
  core->telemetry.stale_writes.add();
  log_info(*core->logger, "task lost",
           {{"id", task.key.id.value},
            {"version", task.key.version.value},
            {"worker", worker},
            {"during", during}});
  return LeaseWrite::stale;
}

void TaskLease::State::drop() noexcept {
  if (stage != LeaseStage::held) return;
  try {
    const FailedLease dropped{this, "abandoned: its worker dropped the lease without an outcome",
                              core->retry_after(Retry::by_policy(), task.attempts)};
    const auto failed = core->writes.fail({&dropped, 1});
    if (failed.error) std::rethrow_exception(failed.error);
    end(failed.each.front(), "fail");
  } catch (const std::exception& error) {
    log_warn(*core->logger, "task not failed, its lease will expire",
             {{"id", task.key.id.value},
              {"version", task.key.version.value},
              {"worker", worker},
              {"error", error.what()}});
  }
}

TaskLease::TaskLease(std::unique_ptr<State> state) noexcept
    : TaskAttempt(&state->task), state_(std::move(state)) {}

TaskLease::TaskLease(TaskLease&&) noexcept = default;

TaskLease& TaskLease::operator=(TaskLease&& other) noexcept {
  if (this != &other) {
    if (state_) state_->drop();
    TaskAttempt::operator=(other);
    state_ = std::move(other.state_);
  }
  return *this;
}

TaskLease::~TaskLease() {
  if (state_) state_->drop();
}

const std::string& TaskLease::worker() const noexcept { return state_->worker; }

std::chrono::steady_clock::time_point TaskLease::valid_until() const noexcept {
  return to_steady(state_->valid_until);
}

bool TaskLease::valid() const noexcept { return BootClock::now() < state_->valid_until.load(); }

LeaseWrite TaskLease::extend() { return extend(state_->duration); }

LeaseWrite TaskLease::extend(milliseconds duration) {
  check_lease_duration(duration);
  if (state_->stage == LeaseStage::ended) return LeaseWrite::stale;
  check_not_handed_over(state_->stage, state_->task.key, "extend");
  HeldLease* const lease = state_.get();
  const auto renewal = state_->core->writes.extend({&lease, 1}, duration);
  if (renewal.each.front() == WriteResult::stale) return state_->lose("extend");
  if (renewal.each.front() == WriteResult::undecided) {
    throw ServerRefused(ServerRefused::Reason::conflict,
                        "the lease of task " + std::to_string(id().value) +
                            " was not renewed, because somebody has locked its row");
  }
  state_->duration = duration;
  state_->valid_until = renewal.valid_until;
  return LeaseWrite::accepted;
}

LeaseWrite TaskLease::progress(std::string_view json) {
  if (state_->stage == LeaseStage::ended) return LeaseWrite::stale;
  check_not_handed_over(state_->stage, state_->task.key, "progress");
  check_json("progress", json, state_->core->options.largest_payload);
  if (state_->core->writes.progress(*state_, json) == WriteResult::stale) {
    return state_->lose("progress");
  }
  state_->task.progress = json;
  return LeaseWrite::accepted;
}

LeaseWrite TaskLease::complete(std::string_view result) {
  check_not_ended(*state_, "complete");
  state_->core->check_result(result);
  const FinishedLease finished{state_.get(), result};
  const auto results = state_->core->writes.complete({&finished, 1}, state_->core->keep());
  if (results.error) std::rethrow_exception(results.error);
  return state_->end(results.each.front(), "complete");
}

FailOutcome TaskLease::fail(std::string_view error, Retry retry) {
  check_not_ended(*state_, "fail");
  const std::string kept = as_kept_error(error);
  const FailedLease ended{state_.get(), kept, state_->core->retry_after(retry, attempt())};
  const auto failed = state_->core->writes.fail({&ended, 1});
  if (failed.error) std::rethrow_exception(failed.error);
  if (state_->end(failed.each.front(), "fail") == LeaseWrite::stale) return FailOutcome::stale;
  return failed.states.front() == TaskState::dead ? FailOutcome::dead : FailOutcome::retried;
}

LeaseWrite TaskLease::release() { return release_after(std::nullopt); }

LeaseWrite TaskLease::release_for(milliseconds delay) {
  check_delay("delay", delay);
  return release_after(delay);
}

LeaseWrite TaskLease::release_after(std::optional<milliseconds> delay) {
  check_not_ended(*state_, "release");
  HeldLease* const lease = state_.get();
  const auto results = state_->core->writes.release({&lease, 1}, delay, GivenBack::in_order);
  if (results.error) std::rethrow_exception(results.error);
  return state_->end(results.each.front(), "release");
}

void TaskLease::abandon() noexcept {
  state_->stage = LeaseStage::ended;
  state_->valid_until = HeldLease::Clock::time_point{};
}

}  // namespace leasehold::inline v0
