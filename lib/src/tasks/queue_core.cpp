#include "tasks/queue_core.hpp"

#include <spdlog/logger.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include "leasehold/errors.hpp"
#include "support/default_logger.hpp"
#include "support/random.hpp"
#include "tasks/accepted.hpp"
#include "tasks/validation.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

void sort_by_id(std::vector<TaskLease::State*>& leases) {
  std::sort(leases.begin(), leases.end(), [](const auto* a, const auto* b) {
    return std::tie(a->task.key.id, a->task.key.version) <
           std::tie(b->task.key.id, b->task.key.version);
  });
}

/// Throws InvalidArgument if a lease occurs twice. They must be in order.
void check_none_twice(std::span<TaskLease::State* const> leases, const char* what) {
  const auto twice = std::adjacent_find(leases.begin(), leases.end());
  if (twice == leases.end()) return;
  throw InvalidArgument(std::string(what) + " of task " +
                        std::to_string((*twice)->task.key.id.value) + ": its lease is given twice");
}

std::vector<LeaseKey> keys_of(std::span<TaskLease::State* const> leases) {
  std::vector<LeaseKey> keys;
  keys.reserve(leases.size());
  for (const auto* lease : leases) keys.push_back(lease->task.key);
  return keys;
}

/// Makes a call after a write whose reply was lost. Whatever is in its way, it is not known whether
/// that write has happened.
template <typename Call>
auto after_lost_reply(Call&& call) {
  try {
    return call();
  } catch (const Unavailable& error) {
    throw OutcomeUnknown(error.what());
  } catch (const ServerRefused& error) {
    throw OutcomeUnknown(error.what());
  }
}

}  // namespace

steady_clock::time_point trusted_until(steady_clock::time_point sent, milliseconds duration) {
  return sent + duration - duration / 100 - milliseconds{2};
}

QueueCore::QueueCore(std::unique_ptr<TaskStore> store_, TaskQueueOptions options_)
    : options(std::move(options_)),
      runner(options.runner ? *options.runner : RunnerId::of_this_process()),
      logger(options.logger ? options.logger : default_logger()),
      store(std::move(store_)) {}

std::vector<Enqueued> QueueCore::enqueue(std::span<const NewTask> tasks) {
  return enqueue(tasks,
                 [this](std::span<const NewTask> distinct) { return store->enqueue(distinct); });
}

std::vector<Enqueued> QueueCore::enqueue(
    std::span<const NewTask> tasks,
    const std::function<std::vector<Enqueued>(std::span<const NewTask>)>& insert) {
  check_new_tasks(tasks, options.largest_payload);

  // Of tasks with the same key only the first is sent; the others find it living.
  std::unordered_map<std::string_view, std::size_t> first_with_key;
  std::vector<std::size_t> sent_as(tasks.size());
  std::vector<NewTask> distinct;
  std::size_t sent = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const NewTask& task = tasks[i];
    sent_as[i] = sent;
    if (!task.unique_key.empty()) {
      const auto [known, is_new] = first_with_key.emplace(task.unique_key, sent);
      if (!is_new) {
        if (distinct.empty()) distinct.assign(tasks.begin(), tasks.begin() + std::ptrdiff_t(i));
        sent_as[i] = known->second;
        continue;
      }
    }
    if (!distinct.empty()) distinct.push_back(task);
    ++sent;
  }

  const auto stored = insert(distinct.empty() ? tasks : std::span<const NewTask>{distinct});
  std::vector<Enqueued> answers(tasks.size());
  std::size_t next_sent = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    answers[i] = stored[sent_as[i]];
    if (sent_as[i] == next_sent) {
      ++next_sent;
    } else {
      answers[i].outcome = Enqueued::Outcome::exists;
    }
    (answers[i].outcome == Enqueued::Outcome::added ? telemetry.enqueued : telemetry.already_there)
        .add();
  }
  return answers;
}

std::vector<TaskLease> QueueCore::lease(LeaseRequest request) {
  if (request.worker.empty()) request.worker = runner.str();
  auto [tasks, valid_until] = lease_tasks(request);
  std::vector<TaskLease> leases;
  leases.reserve(tasks.size());
  for (LeasedTask& task : tasks) {
    auto state = std::make_unique<TaskLease::State>();
    state->core = shared_from_this();
    state->task = std::move(task);
    state->worker = request.worker;
    state->duration = request.duration;
    state->valid_until = valid_until;
    leases.push_back(TaskLease{std::move(state)});
  }
  return leases;
}

QueueCore::Leased QueueCore::lease_tasks(const LeaseRequest& request) {
  check_lease_request(request);
  const auto sent = steady_clock::now();  // before the call: latency must shorten trust
  Leased leased{store->lease(request), trusted_until(sent, request.duration)};
  telemetry.lease_time.add(
      std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - sent));
  telemetry.leased.add(leased.tasks.size());
  if (leased.tasks.empty()) telemetry.empty_leases.add();
  return leased;
}

/// Makes a write of a lease's holder; if its reply is lost, makes it once more. That is safe: if
/// the first one was executed, the second one is stale, or the same.
template <typename Write>
auto QueueCore::again_if_unknown(const char* what, Write&& write, bool* repeated) {
  try {
    return write();
  } catch (const OutcomeUnknown& error) {
    telemetry.outcomes_unknown.add();
    logger->info("task reply lost during={} repeated error=\"{}\"", what, error.what());
    if (repeated) *repeated = true;
    return after_lost_reply(write);
  }
}

void QueueCore::lost(TaskLease::State& lease, const char* what) {
  lease.stage = TaskLease::State::Stage::ended;
  lease.valid_until = {};
  telemetry.stale_writes.add();
  logger->info("task lost id={} version={} worker={} during={}", lease.task.key.id.value,
               lease.task.key.version.value, lease.worker, what);
}

void QueueCore::check_not_ended(const TaskLease::State& lease, const char* what) {
  if (lease.stage != TaskLease::State::Stage::ended) return;
  throw InvalidArgument(std::string(what) + " of task " + std::to_string(lease.task.key.id.value) +
                        ": this lease has ended or was lost");
}

void QueueCore::check_not_handed_over(const TaskLease::State& lease, const char* what) {
  if (lease.stage != TaskLease::State::Stage::handed_over) return;
  throw InvalidArgument(std::string(what) + " of task " + std::to_string(lease.task.key.id.value) +
                        " after complete_in(): its row may be locked by that transaction");
}

LeaseWrite QueueCore::extend(TaskLease::State& lease, milliseconds duration) {
  check_lease_duration(duration);
  if (lease.stage == TaskLease::State::Stage::ended) return LeaseWrite::stale;
  check_not_handed_over(lease, "extend");
  auto sent = steady_clock::now();
  const auto accepted = again_if_unknown("extend", [&] {
    sent = steady_clock::now();
    return store->extend({&lease.task.key, 1}, duration);
  });
  if (accepted.empty()) {
    lost(lease, "extend");
    return LeaseWrite::stale;
  }
  telemetry.extended.add();
  lease.duration = duration;
  lease.valid_until = trusted_until(sent, duration);
  return LeaseWrite::accepted;
}

std::vector<TaskId> QueueCore::extend(std::span<TaskLease> leases) {
  // One statement for each duration, and all leases of one call have the same as a rule.
  std::vector<TaskId> stale;
  std::unordered_map<milliseconds::rep, std::vector<TaskLease::State*>> by_duration;
  for (TaskLease& lease : leases) {
    if (lease.state_->stage == TaskLease::State::Stage::ended) {
      stale.push_back(lease.id());
    } else if (lease.state_->stage == TaskLease::State::Stage::held) {
      by_duration[lease.state_->duration.count()].push_back(lease.state_.get());
    }
  }
  for (auto& [ms, group] : by_duration) {
    sort_by_id(group);
    const auto keys = keys_of(group);
    const milliseconds duration{ms};
    auto sent = steady_clock::now();
    const Accepted accepted(keys, again_if_unknown("extend", [&] {
                              sent = steady_clock::now();
                              return store->extend(keys, duration);
                            }));
    telemetry.extended.add(accepted.size());
    for (TaskLease::State* lease : group) {
      if (accepted.contains(lease->task.key)) {
        lease->valid_until = trusted_until(sent, duration);
      } else {
        lost(*lease, "extend");
        stale.push_back(lease->task.key.id);
      }
    }
  }
  return stale;
}

LeaseWrite QueueCore::progress(TaskLease::State& lease, std::string_view json) {
  if (lease.stage == TaskLease::State::Stage::ended) return LeaseWrite::stale;
  check_not_handed_over(lease, "progress");
  const auto write = progress(lease.task.key, json);
  if (write == LeaseWrite::stale) {
    lost(lease, "progress");
  } else {
    lease.task.progress = json;
  }
  return write;
}

LeaseWrite QueueCore::progress(const LeaseKey& key, std::string_view json) {
  check_json("progress", json, options.largest_payload);
  return again_if_unknown("progress", [&] { return store->progress(key, json); });
}

void QueueCore::check_result(std::string_view result) const {
  if (!result.empty()) check_json("result", result, options.largest_payload);
}

std::optional<bool> QueueCore::was_completed(const LeaseKey& key,
                                             steady_clock::time_point valid_until) {
  const auto record = store->get(key.id);
  if (record) {
    // Only the holder of version n can complete it, and it is n + 1 then.
    return record->state == TaskState::completed && record->version.value == key.version.value + 1;
  }
  // Deleted. While the lease is valid, nobody else can have completed it.
  if (steady_clock::now() < valid_until) return true;
  return std::nullopt;
}

std::vector<TaskId> QueueCore::complete(std::span<const Completion> completions) {
  std::vector<TaskLease::State*> leases;
  std::vector<FinishedTask> tasks;
  for (const Completion& completion : completions) {
    TaskLease::State& lease = state(*completion.lease);
    check_not_ended(lease, "complete");
    check_result(completion.result);
    leases.push_back(&lease);
    tasks.push_back({lease.task.key, completion.result});
  }
  sort_by_id(leases);
  check_none_twice(leases, "complete");
  std::sort(tasks.begin(), tasks.end(),
            [](const auto& a, const auto& b) { return a.key.id < b.key.id; });

  std::vector<LeaseWrite> outcomes;  // in the order of the leases
  try {
    bool repeated = false;
    const Accepted accepted(
        keys_of(leases),
        again_if_unknown(
            "complete", [&] { return store->complete(tasks, keep()); }, &repeated));
    for (const TaskLease::State* lease : leases) {
      const bool ours = accepted.contains(lease->task.key) ||
                        ((repeated || lease->perhaps_ended) && completed_before(*lease));
      outcomes.push_back(ours ? LeaseWrite::accepted : LeaseWrite::stale);
    }
  } catch (const OutcomeUnknown&) {
    // All of them stay as they are, so that the caller can try again; then they are looked up.
    for (TaskLease::State* lease : leases) lease->perhaps_ended = true;
    throw;
  }
  std::vector<TaskId> stale;
  for (std::size_t i = 0; i < leases.size(); ++i) {
    TaskLease::State* const lease = leases[i];
    if (outcomes[i] == LeaseWrite::accepted) {
      lease->stage = TaskLease::State::Stage::ended;
      telemetry.completed.add();
    } else {
      lost(*lease, "complete");
      stale.push_back(lease->task.key.id);
    }
  }
  return stale;
}

/// Whether an earlier try, whose reply was lost, completed it.
bool QueueCore::completed_before(const TaskLease::State& lease) {
  const auto ours =
      after_lost_reply([&] { return was_completed(lease.task.key, lease.valid_until); });
  if (ours) return *ours;
  throw OutcomeUnknown("task " + std::to_string(lease.task.key.id.value) +
                       " is gone: completed by us, or by somebody else after the lease expired");
}

std::optional<milliseconds> QueueCore::retry_after(const Retry& retry, int attempts) const {
  if (retry.kind_ == Retry::Kind::never) return std::nullopt;
  if (retry.kind_ == Retry::Kind::after) {
    check_delay("retry delay", retry.delay_);
    return retry.delay_;
  }
  const TaskBackoff& backoff = retry.kind_ == Retry::Kind::with ? retry.backoff_ : options.backoff;
  check_backoff(backoff);
  const double full =
      std::min(static_cast<double>(backoff.first.count()) * std::pow(backoff.factor, attempts - 1),
               static_cast<double>(backoff.longest.count()));
  return milliseconds{static_cast<milliseconds::rep>(full * (1.0 - random_share() / 2))};
}

std::optional<FailOutcome> QueueCore::was_failed(const LeaseKey& key, std::string_view kept_error) {
  const auto record = store->get(key.id);
  if (!record || record->version.value != key.version.value + 1) return std::nullopt;
  if (record->last_error != kept_error) return FailOutcome::stale;
  return record->state == TaskState::dead ? FailOutcome::dead : FailOutcome::retried;
}

/// What an earlier try, whose reply was lost, did.
FailOutcome QueueCore::failed_before(const TaskLease::State& lease, std::string_view kept_error) {
  const auto first = after_lost_reply([&] { return was_failed(lease.task.key, kept_error); });
  if (first) return *first;
  throw OutcomeUnknown("task " + std::to_string(lease.task.key.id.value) +
                       " has moved on: failed by us, or recovered");
}

FailOutcome QueueCore::fail(TaskLease::State& lease, std::string_view error, const Retry& retry) {
  check_not_ended(lease, "fail");
  const std::string kept = as_kept_error(error);
  const Failure failure{kept, retry_after(retry, lease.task.attempts)};
  FailOutcome outcome{};
  try {
    bool repeated = false;
    outcome = again_if_unknown(
        "fail", [&] { return store->fail(lease.task.key, failure); }, &repeated);
    if (outcome == FailOutcome::stale && (repeated || lease.perhaps_ended)) {
      outcome = failed_before(lease, kept);
    }
  } catch (const OutcomeUnknown&) {
    lease.perhaps_ended = true;
    throw;
  }
  if (outcome == FailOutcome::stale) {
    lost(lease, "fail");
    return outcome;
  }
  lease.stage = TaskLease::State::Stage::ended;
  telemetry.failed.add();
  if (outcome == FailOutcome::dead) telemetry.dead.add();
  return outcome;
}

std::vector<TaskId> QueueCore::release(std::span<TaskLease::State* const> leases,
                                       std::optional<milliseconds> delay) {
  if (delay) check_delay("delay", *delay);
  std::vector<TaskLease::State*> sorted(leases.begin(), leases.end());
  for (const auto* lease : sorted) check_not_ended(*lease, "release");
  sort_by_id(sorted);
  const auto keys = keys_of(sorted);
  bool repeated = false;
  const Accepted accepted(keys,
                          again_if_unknown(
                              "release", [&] { return store->release(keys, delay); }, &repeated));

  std::vector<TaskId> stale;
  for (TaskLease::State* lease : sorted) {
    // Refused the second time because it was accepted the first time: the task is free, as was
    // wanted; and if it was not ours any more, that is no harm either.
    if (accepted.contains(lease->task.key) || repeated) {
      lease->stage = TaskLease::State::Stage::ended;
      telemetry.released.add();
    } else {
      lost(*lease, "release");
      stale.push_back(lease->task.key.id);
    }
  }
  return stale;
}

void QueueCore::complete_joined(TaskLease::State& lease, std::string_view result,
                                const JoinedWrite& write) {
  check_not_ended(lease, "complete_in");
  check_result(result);
  // From here on the handle must not touch the task by itself: in its destructor it would wait for
  // the lock of this very transaction.
  lease.stage = TaskLease::State::Stage::handed_over;
  if (write({lease.task.key, result}, keep()) == LeaseWrite::accepted) return;
  telemetry.stale_writes.add();
  throw LeaseLost("task " + std::to_string(lease.task.key.id.value) + " is not leased by " +
                  lease.worker + " any more (version " +
                  std::to_string(lease.task.key.version.value) + ")");
}

void QueueCore::drop(TaskLease::State& lease) noexcept {
  if (lease.stage != TaskLease::State::Stage::held) return;
  try {
    fail(lease, "abandoned: the worker let go of it without an outcome", Retry::by_policy());
  } catch (const std::exception& error) {
    logger->warn("task not failed, its lease will expire id={} version={} worker={} error=\"{}\"",
                 lease.task.key.id.value, lease.task.key.version.value, lease.worker, error.what());
  }
}

}  // namespace leasehold::inline v0
