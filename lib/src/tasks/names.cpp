#include "tasks/task_store.hpp"

#include <string>

#include "leasehold/errors.hpp"
#include "leasehold/task_queue.hpp"
#include "leasehold/worker_observer.hpp"

namespace leasehold::inline v0 {

const char* to_string(TaskState state) noexcept {
  switch (state) {
    case TaskState::pending:
      return "pending";
    case TaskState::leased:
      return "leased";
    case TaskState::completed:
      return "completed";
    case TaskState::dead:
      return "dead";
    case TaskState::cancelled:
      return "cancelled";
  }
  return "?";
}

TaskState to_state(std::string_view name) {
  for (const TaskState state : {TaskState::pending, TaskState::leased, TaskState::completed,
                                TaskState::dead, TaskState::cancelled}) {
    if (name == to_string(state)) return state;
  }
  throw ServerRefused(
      ServerRefused::Reason::newer_schema,
      "a task is in a state that this version of Leasehold does not know: " + std::string(name));
}

const char* to_string(LeaseWrite write) noexcept {
  switch (write) {
    case LeaseWrite::accepted:
      return "accepted";
    case LeaseWrite::stale:
      return "stale";
    case LeaseWrite::deferred:
      return "deferred";
  }
  return "?";
}

const char* to_string(FailOutcome outcome) noexcept {
  switch (outcome) {
    case FailOutcome::retried:
      return "retried";
    case FailOutcome::dead:
      return "dead";
    case FailOutcome::stale:
      return "stale";
  }
  return "?";
}

const char* to_string(Enqueued::Outcome outcome) noexcept {
  switch (outcome) {
    case Enqueued::Outcome::added:
      return "added";
    case Enqueued::Outcome::exists:
      return "exists";
  }
  return "?";
}

const char* to_string(Update::Outcome outcome) noexcept {
  switch (outcome) {
    case Update::Outcome::updated:
      return "updated";
    case Update::Outcome::conflict:
      return "conflict";
    case Update::Outcome::leased:
      return "leased";
    case Update::Outcome::not_found:
      return "not found";
  }
  return "?";
}

const char* to_string(CancelOutcome outcome) noexcept {
  switch (outcome) {
    case CancelOutcome::was_pending:
      return "was pending";
    case CancelOutcome::was_leased:
      return "was leased";
    case CancelOutcome::finished:
      return "finished";
    case CancelOutcome::not_found:
      return "not found";
  }
  return "?";
}

const char* to_string(SnapshotHolder::Kind kind) noexcept {
  switch (kind) {
    case SnapshotHolder::Kind::transaction:
      return "transaction";
    case SnapshotHolder::Kind::prepared:
      return "prepared";
    case SnapshotHolder::Kind::replication:
      return "replication";
  }
  return "?";
}

const char* to_string(RetryOutcome outcome) noexcept {
  switch (outcome) {
    case RetryOutcome::requeued:
      return "requeued";
    case RetryOutcome::not_dead:
      return "not dead";
    case RetryOutcome::key_taken:
      return "key taken";
    case RetryOutcome::not_found:
      return "not found";
  }
  return "?";
}

const char* to_string(StopReason reason) noexcept {
  switch (reason) {
    case StopReason::none:
      return "none";
    case StopReason::lease_lost:
      return "lease lost";
    case StopReason::cancelled:
      return "cancelled";
    case StopReason::deadline:
      return "deadline";
    case StopReason::shutdown:
      return "shutdown";
  }
  return "?";
}

const char* to_string(TaskEventType type) noexcept {
  switch (type) {
    case TaskEventType::leased:
      return "leased";
    case TaskEventType::started:
      return "started";
    case TaskEventType::completed:
      return "completed";
    case TaskEventType::failed:
      return "failed";
    case TaskEventType::dead:
      return "dead";
    case TaskEventType::released:
      return "released";
    case TaskEventType::lost:
      return "lost";
    case TaskEventType::stale_write:
      return "stale write";
  }
  return "?";
}

}  // namespace leasehold::inline v0
