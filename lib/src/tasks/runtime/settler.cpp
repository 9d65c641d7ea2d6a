#include "tasks/runtime/settler.hpp"

#include <spdlog/logger.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "support/sleep.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;
using Kind = TaskOutcome::Kind;

/// The most bytes of results in one statement: far below what a server accepts.
constexpr std::size_t most_bytes = 16 * 1024 * 1024;

std::size_t bytes_of(const std::vector<TaskRunPtr>& runs) {
  return std::accumulate(
      runs.begin(), runs.end(), std::size_t{0},
      [](std::size_t sum, const TaskRunPtr& run) { return sum + run->outcome.text.size(); });
}

/// Whether the store refused the whole batch, perhaps because of a single task, so that the others
/// would be accepted without it.
bool refused_as_one(const WriteResults& results) {
  using Reason = ServerRefused::Reason;
  const auto undecided =
      std::count(results.each.begin(), results.each.end(), WriteResult::undecided);
  if (!results.error || undecided < std::ssize(results.each) || undecided == 1) return false;
  try {
    std::rethrow_exception(results.error);
  } catch (const ServerRefused& refused) {
    return refused.reason() == Reason::other || refused.reason() == Reason::out_of_memory;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Settler::Settler(const WorkerContext& context)
    : context_(context),
      writes_(*context.core.store, context.core.telemetry, *context.core.logger,
              LostReply::report) {}

void Settler::run(const std::stop_token& stop) {
  Backoff again(milliseconds{50}, milliseconds{2'000});
  while (!stop.stop_requested()) {
    auto left = settle(context_.board.take_outcomes(stop));
    if (left.empty()) {
      again.reset();
      continue;
    }
    context_.board.put_back(std::move(left));
    sleep_for(again.next(), stop);
  }
}

Settler::Runs Settler::settle(Runs runs) {
  std::map<Keep, Runs> completed;
  std::map<std::pair<std::optional<milliseconds>, GivenBack>, Runs> released;
  Runs failed;
  for (TaskRunPtr& run : runs) {
    switch (run->outcome.kind) {
      case Kind::complete:
        completed[run->kind.keep].push_back(std::move(run));
        break;
      case Kind::release:
        released[{run->outcome.delay, run->outcome.when}].push_back(std::move(run));
        break;
      case Kind::fail:
        failed.push_back(std::move(run));
        break;
    }
  }
  away_ = false;
  for (const auto& [keep, group] : completed) complete(group, keep);
  for (const auto& [_, group] : released) release(group);
  for (const TaskRunPtr& run : failed) fail(run);
  return std::exchange(unwritten_, {});
}

void Settler::complete(const Runs& runs, Keep keep) {
  const bool too_large = runs.size() > 1 && bytes_of(runs) > most_bytes;
  WriteResults results;
  if (!too_large && !away_) {
    std::vector<FinishedLease> finished;
    finished.reserve(runs.size());
    for (const TaskRunPtr& run : runs) finished.push_back({run.get(), run->outcome.text});
    results = writes_.complete(finished, keep);
  }
  if (too_large || refused_as_one(results)) {
    // In halves, so that one task that is refused again and again does not keep the others.
    const auto middle = runs.begin() + std::ssize(runs) / 2;
    complete({runs.begin(), middle}, keep);
    complete({middle, runs.end()}, keep);
    return;
  }
  apply("complete", runs, results, TaskEventType::completed);
}

void Settler::release(const Runs& runs) {
  WriteResults results;
  if (!away_) {
    std::vector<HeldLease*> leases;
    leases.reserve(runs.size());
    for (const TaskRunPtr& run : runs) leases.push_back(run.get());
    const TaskOutcome& outcome = runs.front()->outcome;
    results = writes_.release(leases, outcome.delay, outcome.when);
  }
  apply("release", runs, results, TaskEventType::released);
}

void Settler::fail(const TaskRunPtr& run) {
  LeaseWrites::FailResults failed;
  const FailedLease lease{run.get(), run->outcome.text, run->outcome.delay};
  if (!away_) failed = writes_.fail({&lease, 1});
  auto event = TaskEventType::completed;
  if (!failed.each.empty() && failed.each.front() == WriteResult::accepted &&
      failed.states.front() != TaskState::completed) {
    const bool dead = failed.states.front() == TaskState::dead;
    event = dead ? TaskEventType::dead : TaskEventType::failed;
    context_.core.logger->log(
        dead ? spdlog::level::warn : spdlog::level::info,
        "task failed id={} version={} type={} worker={} attempt={} outcome={}",
        run->task.key.id.value, run->task.key.version.value, run->task.type, context_.name,
        run->task.attempts, to_string(dead ? FailOutcome::dead : FailOutcome::retried));
  }
  apply("fail", {run}, failed, event);
}

/// Notes what became of a write. Without results it was not made, because the store is away.
void Settler::apply(const char* what, const Runs& runs, const WriteResults& results,
                    TaskEventType event) {
  if (results.error) {
    note_trouble(what, results.error);
  } else if (!away_) {
    context_.outage.over();
  }
  if (results.each.empty()) {
    unwritten_.insert(unwritten_.end(), runs.begin(), runs.end());
    return;
  }
  // First those that are done: what is said about the others takes a look-up each.
  Runs done;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (results.each[i] == WriteResult::accepted) done.push_back(runs[i]);
  }
  context_.board.settled(done);
  for (const TaskRunPtr& run : done) context_.telemetry.record(event, *run, run->run_time);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (results.each[i] == WriteResult::stale) refused(runs[i], what);
    if (results.each[i] == WriteResult::unknown) unknown(runs[i], what);
    if (results.each[i] == WriteResult::undecided) unwritten_.push_back(runs[i]);
  }
}

void Settler::note_trouble(const char* what, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ServerRefused& refused) {
    context_.outage.failed(what, refused);
  } catch (const Error& unreachable) {
    context_.outage.failed(what, unreachable);
    away_ = true;
  }
}

/// The lease was gone when the outcome was to be written.
void Settler::refused(const TaskRunPtr& run, const char* what) {
  context_.board.settled({&run, 1});
  context_.count_stale_write(*run);
  context_.tell_of_loss(*run, WorkerContext::why_stale(*context_.core.store, run->task.key.id),
                        what);
}

/// The outcome may have been written, but nobody can tell any more.
void Settler::unknown(const TaskRunPtr& run, const char* what) {
  context_.board.settled({&run, 1});
  context_.core.logger->warn("task outcome unknown id={} version={} worker={} during={}",
                             run->task.key.id.value, run->task.key.version.value, context_.name,
                             what);
}

}  // namespace leasehold::inline v0
