#include "leasehold/task_lease.hpp"

#include <utility>

#include "tasks/queue_core.hpp"

namespace leasehold::inline v0 {

TaskLease::TaskLease(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

TaskLease::TaskLease(TaskLease&&) noexcept = default;

TaskLease& TaskLease::operator=(TaskLease&& other) noexcept {
  if (this != &other) {
    if (state_) state_->core->drop(*state_);
    state_ = std::move(other.state_);
  }
  return *this;
}

TaskLease::~TaskLease() {
  if (state_) state_->core->drop(*state_);
}

TaskId TaskLease::id() const noexcept { return state_->task.key.id; }
TaskVersion TaskLease::version() const noexcept { return state_->task.key.version; }
const std::string& TaskLease::type() const noexcept { return state_->task.type; }
const std::string& TaskLease::payload() const noexcept { return state_->task.payload; }
int TaskLease::priority() const noexcept { return state_->task.priority; }
int TaskLease::attempt() const noexcept { return state_->task.attempts; }
int TaskLease::max_attempts() const noexcept { return state_->task.max_attempts; }
int TaskLease::crash_count() const noexcept { return state_->task.crash_count; }
const std::string& TaskLease::last_progress() const noexcept { return state_->task.progress; }
const std::string& TaskLease::worker() const noexcept { return state_->worker; }

std::chrono::steady_clock::time_point TaskLease::valid_until() const noexcept {
  return state_->valid_until;
}

bool TaskLease::valid() const noexcept {
  return state_->stage != State::Stage::ended &&
         std::chrono::steady_clock::now() < state_->valid_until;
}

LeaseWrite TaskLease::extend() { return state_->core->extend(*state_, state_->duration); }

LeaseWrite TaskLease::extend(std::chrono::milliseconds duration) {
  return state_->core->extend(*state_, duration);
}

LeaseWrite TaskLease::progress(std::string_view json) {
  return state_->core->progress(*state_, json);
}

LeaseWrite TaskLease::complete(std::string_view result) {
  const Completion completion{this, std::string(result)};
  const auto stale = state_->core->complete({&completion, 1});
  return stale.empty() ? LeaseWrite::accepted : LeaseWrite::stale;
}

FailOutcome TaskLease::fail(std::string_view error, Retry retry) {
  return state_->core->fail(*state_, error, retry);
}

LeaseWrite TaskLease::release() {
  State* const self = state_.get();
  return self->core->release({&self, 1}, std::nullopt).empty() ? LeaseWrite::accepted
                                                               : LeaseWrite::stale;
}

LeaseWrite TaskLease::release_for(std::chrono::milliseconds delay) {
  State* const self = state_.get();
  return self->core->release({&self, 1}, delay).empty() ? LeaseWrite::accepted : LeaseWrite::stale;
}

void TaskLease::abandon() noexcept { state_->stage = State::Stage::ended; }

}  // namespace leasehold::inline v0
