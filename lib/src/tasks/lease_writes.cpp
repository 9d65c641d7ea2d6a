#include "tasks/lease_writes.hpp"

#include <spdlog/logger.h>

#include <algorithm>
#include <string>

#include "leasehold/errors.hpp"
#include "tasks/accepted.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;

/// In order of id, as stores want them.
std::vector<LeaseKey> keys_of(std::span<HeldLease* const> leases) {
  std::vector<LeaseKey> keys;
  keys.reserve(leases.size());
  for (const HeldLease* lease : leases) keys.push_back(lease->task.key);
  std::sort(keys.begin(), keys.end(), [](auto& a, auto& b) { return a.id < b.id; });
  return keys;
}

std::vector<WriteResult> results_of(std::span<HeldLease* const> leases, const Accepted& accepted) {
  std::vector<WriteResult> results;
  results.reserve(leases.size());
  for (const HeldLease* lease : leases) {
    results.push_back(accepted.contains(lease->task.key) ? WriteResult::accepted
                                                         : WriteResult::stale);
  }
  return results;
}

std::size_t number_accepted(const std::vector<WriteResult>& results) {
  return static_cast<std::size_t>(
      std::count(results.begin(), results.end(), WriteResult::accepted));
}

/// Whether it was the holder of this lease who completed the task.
WriteResult was_completed(const HeldLease& lease, const std::optional<TaskRecord>& record) {
  if (record) {
    // Only the holder of version n can complete the task, and its version is n + 1 then.
    const bool ours = record->state == TaskState::completed &&
                      record->version.value == lease.task.key.version.value + 1;
    return ours ? WriteResult::accepted : WriteResult::stale;
  }
  // Deleted. While the lease is valid, nobody else can have completed the task.
  return BootClock::now() < lease.valid_until.load() ? WriteResult::accepted : WriteResult::unknown;
}

/// Makes a call after a write whose reply was lost. If the call fails, for whatever reason, the
/// outcome of that write is still unknown.
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

LeaseWrites::LeaseWrites(TaskStore& store, TaskTelemetry& telemetry, spdlog::logger& logger,
                         LostReply lost_reply)
    : store_(store), telemetry_(telemetry), logger_(logger), lost_reply_(lost_reply) {}

/// Makes a write, and repeats it if its reply was lost and that is our business. `ending`: the
/// leases that it ends, which are in doubt from then on.
template <typename Write>
auto LeaseWrites::once_or_twice(const char* what, std::span<HeldLease* const> ending,
                                Write&& write) {
  try {
    return write();
  } catch (const OutcomeUnknown& error) {
    telemetry_.outcomes_unknown.add();
    for (HeldLease* lease : ending) lease->in_doubt = true;
    if (lost_reply_ == LostReply::report) throw;
    logger_.info("task reply lost during={} repeated error=\"{}\"", what, error.what());
  }
  return after_lost_reply(write);
}

/// Calls the store after a write that was refused.
template <typename LookUp>
auto LeaseWrites::look_up(LookUp&& call) {
  return lost_reply_ == LostReply::repeat ? after_lost_reply(call) : call();
}

/// Looks up the refused leases that are in doubt. After an error the rest stays undecided: the
/// store is probably away, and each look-up would wait for its own time-out.
void LeaseWrites::look_up_completions(std::span<HeldLease* const> leases, WriteResults& results) {
  for (std::size_t i = 0; i < leases.size(); ++i) {
    if (results.each[i] != WriteResult::stale || !leases[i]->in_doubt) continue;
    results.each[i] = WriteResult::undecided;
    if (results.error) continue;
    const HeldLease& lease = *leases[i];
    try {
      results.each[i] =
          was_completed(lease, look_up([&] { return store_.get(lease.task.key.id); }));
    } catch (const Error&) {
      results.error = std::current_exception();
    }
  }
}

/// For callers that want one answer: unless all results are known, none is.
void LeaseWrites::all_or_none(std::span<HeldLease* const> leases, WriteResults& results) const {
  if (lost_reply_ == LostReply::report) return;
  const auto unknown = std::find(results.each.begin(), results.each.end(), WriteResult::unknown);
  if (unknown != results.each.end()) {
    const auto& task = leases[static_cast<std::size_t>(unknown - results.each.begin())]->task;
    results.error = std::make_exception_ptr(
        OutcomeUnknown("task " + std::to_string(task.key.id.value) +
                       " is gone: completed by us, or by another worker after the lease expired"));
  }
  if (!results.error) return;
  for (HeldLease* lease : leases) lease->in_doubt = true;
  std::fill(results.each.begin(), results.each.end(), WriteResult::undecided);
}

LeaseWrites::Renewal LeaseWrites::extend(std::span<HeldLease* const> leases,
                                         milliseconds duration) {
  const auto keys = keys_of(leases);
  auto sent = BootClock::now();
  const Accepted accepted(keys, once_or_twice("extend", {}, [&] {
                            sent = BootClock::now();  // latency must shorten trust
                            return store_.extend(keys, duration);
                          }));
  telemetry_.extended.add(accepted.size());
  return {results_of(leases, accepted), trusted_until(sent, duration)};
}

WriteResult LeaseWrites::progress(const HeldLease& lease, std::string_view json) {
  const auto write =
      once_or_twice("progress", {}, [&] { return store_.progress(lease.task.key, json); });
  return write == LeaseWrite::accepted ? WriteResult::accepted : WriteResult::stale;
}

WriteResults LeaseWrites::complete(std::span<const FinishedLease> finished, Keep keep) {
  std::vector<HeldLease*> leases;
  std::vector<FinishedTask> tasks;
  leases.reserve(finished.size());
  tasks.reserve(finished.size());
  for (const auto& [lease, result] : finished) {
    leases.push_back(lease);
    tasks.push_back({lease->task.key, result});
  }
  std::sort(tasks.begin(), tasks.end(), [](auto& a, auto& b) { return a.key.id < b.key.id; });

  WriteResults results{std::vector(leases.size(), WriteResult::undecided), nullptr};
  try {
    const Accepted accepted(keys_of(leases), once_or_twice("complete", leases, [&] {
                              return store_.complete(tasks, keep);
                            }));
    results.each = results_of(leases, accepted);
  } catch (const Error&) {
    results.error = std::current_exception();
    return results;
  }
  look_up_completions(leases, results);
  all_or_none(leases, results);
  telemetry_.completed.add(number_accepted(results.each));
  return results;
}

WriteResults LeaseWrites::release(std::span<HeldLease* const> leases,
                                  std::optional<milliseconds> delay) {
  const auto keys = keys_of(leases);
  WriteResults results{std::vector(leases.size(), WriteResult::undecided), nullptr};
  const auto write = [&] {
    try {
      return store_.release(keys, delay);
    } catch (const OutcomeUnknown&) {
      for (HeldLease* lease : leases) lease->release_in_doubt = true;
      throw;
    }
  };
  try {
    const Accepted accepted(keys, once_or_twice("release", leases, write));
    results.each = results_of(leases, accepted);
  } catch (const Error&) {
    results.error = std::current_exception();
    return results;
  }
  // No look-up: either the first attempt released the task, or it was not ours any more. Both ways
  // it is free for others, as was wanted.
  for (std::size_t i = 0; i < leases.size(); ++i) {
    if (leases[i]->release_in_doubt) results.each[i] = WriteResult::accepted;
  }
  telemetry_.released.add(number_accepted(results.each));
  return results;
}

LeaseWrites::FailResult LeaseWrites::fail(HeldLease& lease, const Failure& failure) {
  HeldLease* const ending = &lease;
  FailResult failed;
  try {
    const auto outcome =
        once_or_twice("fail", {&ending, 1}, [&] { return store_.fail(lease.task.key, failure); });
    if (outcome == FailOutcome::stale) {
      failed = look_up_failure(lease, failure.error);
    } else {
      failed.result = WriteResult::accepted;
      failed.state = outcome == FailOutcome::dead ? TaskState::dead : TaskState::pending;
    }
    if (failed.result == WriteResult::unknown && lost_reply_ == LostReply::repeat) {
      failed.result = WriteResult::undecided;
      throw OutcomeUnknown("task " + std::to_string(lease.task.key.id.value) +
                           " has moved on: failed by us, or recovered");
    }
  } catch (const Error&) {
    failed.error = std::current_exception();
  }
  if (failed.result == WriteResult::accepted && failed.state != TaskState::completed) {
    telemetry_.failed.add();
    if (failed.state == TaskState::dead) telemetry_.dead.add();
  }
  return failed;
}

/// What became of the task whose failure was refused.
LeaseWrites::FailResult LeaseWrites::look_up_failure(const HeldLease& lease,
                                                     std::string_view error) {
  if (!lease.perhaps_completed && !lease.in_doubt) return {.result = WriteResult::stale};
  const auto record = look_up([&] { return store_.get(lease.task.key.id); });
  if (lease.perhaps_completed) {
    // The handler threw, but its transaction may have been committed all the same.
    const auto completed = was_completed(lease, record);
    if (completed != WriteResult::stale) return {completed, TaskState::completed};
    if (!lease.in_doubt) return {.result = WriteResult::stale};
  }
  if (!record || record->version.value != lease.task.key.version.value + 1) {
    return {.result = WriteResult::unknown};
  }
  if (record->last_error != error) return {.result = WriteResult::stale};
  return {WriteResult::accepted,
          record->state == TaskState::dead ? TaskState::dead : TaskState::pending};
}

}  // namespace leasehold::inline v0
