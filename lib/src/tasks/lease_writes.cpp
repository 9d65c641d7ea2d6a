#include "tasks/lease_writes.hpp"

#include <spdlog/logger.h>

#include <algorithm>
#include <string>

#include "leasehold/errors.hpp"
#include "support/log_event.hpp"
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

/// Whether nothing has happened to the task after the end of this lease.
bool is_next(const StoredTask& stored, const HeldLease& lease) {
  return stored.lease == lease.task.key.lease &&
         stored.record.version.value == lease.task.key.version.value + 1;
}

/// Whether it was the holder of this lease who completed the task.
WriteResult was_completed(const HeldLease& lease, const std::optional<StoredTask>& stored) {
  if (stored) {
    // Only the holder of a lease can complete its task.
    const bool ours = stored->record.state == TaskState::completed && is_next(*stored, lease);
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

/// Makes a write, and repeats it if its reply was lost and that is our business and tells us more.
/// `ending`: the leases that it ends, which are in doubt from then on.
template <typename Write>
auto LeaseWrites::once_or_twice(const char* what, std::span<HeldLease* const> ending,
                                Write&& write) {
  try {
    return write();
  } catch (const OutcomeUnknown& error) {
    telemetry_.outcomes_unknown.add();
    for (HeldLease* lease : ending) lease->in_doubt = true;
    const bool unconfirmed = dynamic_cast<const Unconfirmed*>(&error) != nullptr;
    if (lost_reply_ == LostReply::report || unconfirmed) throw;
    log_info(logger_, "task reply lost, repeated", {{"during", what}, {"error", error.what()}});
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
  std::vector<Renewable> renewable;
  renewable.reserve(leases.size());
  for (const HeldLease* lease : leases) renewable.push_back({lease->task.key, lease->started});
  std::sort(renewable.begin(), renewable.end(),
            [](auto& a, auto& b) { return a.key.id < b.key.id; });
  auto sent = BootClock::now();
  auto reply = once_or_twice("extend", {}, [&] {
    sent = BootClock::now();  // latency must shorten trust
    return store_.extend(renewable, duration);
  });
  const Accepted renewed(std::move(reply.renewed));
  const Accepted locked(std::move(reply.locked));
  telemetry_.extended.add(renewed.size());
  Renewal renewal{results_of(leases, renewed), trusted_until(sent, duration)};
  for (std::size_t i = 0; i < leases.size(); ++i) {
    if (locked.contains(leases[i]->task.key)) renewal.each[i] = WriteResult::undecided;
  }
  return renewal;
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
    const Accepted accepted(
        once_or_twice("complete", leases, [&] { return store_.complete(tasks, keep); }));
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

LeaseWrites::Endings LeaseWrites::release(std::span<HeldLease* const> leases,
                                          std::optional<milliseconds> delay, GivenBack when) {
  const auto keys = keys_of(leases);
  Endings results{{std::vector(leases.size(), WriteResult::undecided), nullptr},
                  std::vector(leases.size(), TaskState::pending)};
  const auto write = [&] {
    try {
      return store_.release(keys, delay, when);
    } catch (const OutcomeUnknown&) {
      for (HeldLease* lease : leases) lease->release_in_doubt = true;
      throw;
    }
  };
  try {
    const Accepted accepted(once_or_twice("release", leases, write));
    results.each = results_of(leases, accepted);
  } catch (const Error&) {
    results.error = std::current_exception();
    return results;
  }
  for (std::size_t i = 0; i < leases.size(); ++i) {
    if (results.each[i] != WriteResult::stale) continue;
    if (!leases[i]->perhaps_completed) {
      // No look-up: either the first attempt released the task, or it was not ours any more. Both
      // ways it is free for others, as was wanted.
      if (leases[i]->release_in_doubt) results.each[i] = WriteResult::accepted;
      continue;
    }
    results.each[i] = WriteResult::undecided;
    if (results.error) continue;  // each look-up would wait for its own time-out
    try {
      const Verdict verdict = look_up_release(*leases[i]);
      results.each[i] = verdict.result;
      results.states[i] = verdict.state;
    } catch (const Error&) {
      results.error = std::current_exception();
    }
  }
  all_or_none(leases, results);
  for (std::size_t i = 0; i < leases.size(); ++i) {
    if (results.each[i] != WriteResult::accepted) continue;
    if (results.states[i] != TaskState::completed) telemetry_.released.add();
  }
  return results;
}

/// What became of the task whose release was refused, after it had been handed over to a
/// transaction of its handler.
LeaseWrites::Verdict LeaseWrites::look_up_release(const HeldLease& lease) {
  const auto completed =
      was_completed(lease, look_up([&] { return store_.get(lease.task.key.id); }));
  if (completed != WriteResult::stale) return {completed, TaskState::completed};
  return {lease.release_in_doubt ? WriteResult::accepted : WriteResult::stale};
}

LeaseWrites::Endings LeaseWrites::fail(std::span<const FailedLease> failed) {
  std::vector<HeldLease*> leases;
  std::vector<FailedTask> tasks;
  for (const auto& [lease, error, retry_after] : failed) {
    leases.push_back(lease);
    tasks.push_back({lease->task.key, error, retry_after});
  }
  Endings results{{std::vector(leases.size(), WriteResult::undecided), nullptr},
                  std::vector(leases.size(), TaskState::pending)};
  try {
    const auto outcomes = once_or_twice("fail", leases, [&] { return store_.fail(tasks); });
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      results.each[i] =
          outcomes[i] == FailOutcome::stale ? WriteResult::stale : WriteResult::accepted;
      if (outcomes[i] == FailOutcome::dead) results.states[i] = TaskState::dead;
    }
  } catch (const Error&) {
    results.error = std::current_exception();
    return results;
  }
  for (std::size_t i = 0; i < leases.size(); ++i) {
    if (results.each[i] != WriteResult::stale) continue;
    if (!leases[i]->perhaps_completed && !leases[i]->in_doubt) continue;
    results.each[i] = WriteResult::undecided;
    if (results.error) continue;  // each look-up would wait for its own time-out
    try {
      const Verdict verdict = look_up_failure(*leases[i], tasks[i].error);
      results.each[i] = verdict.result;
      results.states[i] = verdict.state;
    } catch (const Error&) {
      results.error = std::current_exception();
    }
  }
  all_or_none(leases, results);
  for (std::size_t i = 0; i < leases.size(); ++i) {
    if (results.each[i] != WriteResult::accepted) continue;
    if (results.states[i] != TaskState::completed) telemetry_.failed.add();
    if (results.states[i] == TaskState::dead) telemetry_.dead.add();
  }
  return results;
}

/// What became of the task whose failure was refused.
LeaseWrites::Verdict LeaseWrites::look_up_failure(const HeldLease& lease, std::string_view error) {
  const auto stored = look_up([&] { return store_.get(lease.task.key.id); });
  if (lease.perhaps_completed) {
    // The handler threw, but its transaction may have been committed all the same.
    const auto completed = was_completed(lease, stored);
    if (completed != WriteResult::stale) return {completed, TaskState::completed};
    if (!lease.in_doubt) return {};
  }
  if (!stored || !is_next(*stored, lease)) return {.result = WriteResult::unknown};
  if (stored->record.last_error != error) return {};
  return {WriteResult::accepted,
          stored->record.state == TaskState::dead ? TaskState::dead : TaskState::pending};
}

}  // namespace leasehold::inline v0
