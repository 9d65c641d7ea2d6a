#include "tasks/runtime/settler.hpp"

#include <spdlog/logger.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "support/sleep.hpp"
#include "tasks/accepted.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;
using Kind = TaskOutcome::Kind;

/// Results in one statement: far below what a server takes.
constexpr std::size_t most_bytes = 16 * 1024 * 1024;

std::size_t bytes_of(const std::vector<TaskRunPtr>& runs) {
  return std::accumulate(
      runs.begin(), runs.end(), std::size_t{0},
      [](std::size_t sum, const TaskRunPtr& run) { return sum + run->outcome.text.size(); });
}

/// Whether one task of several may be the reason, so that the others can do without it.
bool is_about_one(const ServerRefused& error) {
  using Reason = ServerRefused::Reason;
  return error.reason() == Reason::other || error.reason() == Reason::out_of_memory;
}

}  // namespace

Settler::Settler(const WorkerContext& context) : context_(context) {}

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
  std::sort(runs.begin(), runs.end(),
            [](const auto& a, const auto& b) { return a->task.key.id < b->task.key.id; });
  std::map<Keep, Runs> completed;
  std::map<std::optional<milliseconds>, Runs> released;
  Runs failed;
  for (TaskRunPtr& run : runs) {
    switch (run->outcome.kind) {
      case Kind::complete:
        completed[run->kind.keep].push_back(std::move(run));
        break;
      case Kind::release:
        released[run->outcome.delay].push_back(std::move(run));
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

/// Makes a write, or keeps the tasks for another round.
template <typename Write>
void Settler::attempt(const char* what, const Runs& runs, Write&& write) {
  try {
    if (!away_) {
      write();
      context_.outage.over();
      return;
    }
  } catch (const OutcomeUnknown& error) {
    context_.core.telemetry.outcomes_unknown.add();
    for (const TaskRunPtr& run : runs) run->perhaps_written = true;
    context_.outage.failed(what, error);
    away_ = true;
  } catch (const Unavailable& error) {
    context_.outage.failed(what, error);
    away_ = true;
  } catch (const Error& error) {
    context_.outage.failed(what, error);
  }
  unwritten_.insert(unwritten_.end(), runs.begin(), runs.end());
}

void Settler::complete(const Runs& runs, Keep keep) {
  if (runs.size() > 1 && bytes_of(runs) > most_bytes) return complete_halves(runs, keep);
  Runs done;
  Runs not_accepted;
  bool refused_as_one = false;
  attempt("complete", runs, [&] {
    std::vector<FinishedTask> tasks;
    std::vector<LeaseKey> keys;
    tasks.reserve(runs.size());
    keys.reserve(runs.size());
    for (const TaskRunPtr& run : runs) {
      tasks.push_back({run->task.key, run->outcome.text});
      keys.push_back(run->task.key);
    }
    try {
      const Accepted accepted(keys, context_.core.store->complete(tasks, keep));
      for (const TaskRunPtr& run : runs) {
        (accepted.contains(run->task.key) ? done : not_accepted).push_back(run);
      }
    } catch (const ServerRefused& error) {
      refused_as_one = runs.size() > 1 && is_about_one(error);
      if (!refused_as_one) throw;
    }
  });
  if (refused_as_one) return complete_halves(runs, keep);
  context_.core.telemetry.completed.add(done.size());
  context_.board.settled(done);
  for (const TaskRunPtr& run : done) {
    context_.telemetry.record(TaskEventType::completed, *run, run->run_time);
  }
  for (const TaskRunPtr& run : not_accepted) {
    if (!run->perhaps_written) {
      refused(run, "complete");
      continue;
    }
    attempt("look up", {run}, [&] {
      const auto ours =
          context_.core.was_completed(run->task.key, context_.board.valid_until(*run));
      if (!ours) return unknown(run, "complete");
      if (!*ours) return refused(run, "complete");
      context_.core.telemetry.completed.add();
      settled(run, TaskEventType::completed);
    });
  }
}

/// So that one that is refused again and again does not keep the others.
void Settler::complete_halves(const Runs& runs, Keep keep) {
  const auto middle = runs.begin() + std::ssize(runs) / 2;
  complete({runs.begin(), middle}, keep);
  complete({middle, runs.end()}, keep);
}

void Settler::release(const Runs& runs) {
  attempt("release", runs, [&] {
    std::vector<LeaseKey> keys;
    keys.reserve(runs.size());
    for (const TaskRunPtr& run : runs) keys.push_back(run->task.key);
    const Accepted accepted(keys, context_.core.store->release(keys, runs.front()->outcome.delay));
    for (const TaskRunPtr& run : runs) {
      // Refused the second time because it was accepted the first time: free, as was wanted.
      if (accepted.contains(run->task.key) || run->perhaps_written) {
        context_.core.telemetry.released.add();
        settled(run, TaskEventType::released);
      } else {
        refused(run, "release");
      }
    }
  });
}

void Settler::fail(const TaskRunPtr& run) {
  attempt("fail", {run}, [&] {
    const LeaseKey key = run->task.key;
    auto outcome = context_.core.store->fail(key, {run->outcome.text, run->outcome.delay});
    if (outcome == FailOutcome::stale && run->was_handed_over) {
      // Its handler threw, but its transaction may have been committed all the same.
      const auto completed = context_.core.was_completed(key, context_.board.valid_until(*run));
      if (!completed) return unknown(run, "fail");
      if (*completed) return settled(run, TaskEventType::completed);
    }
    if (outcome == FailOutcome::stale && run->perhaps_written) {
      const auto first = context_.core.was_failed(key, run->outcome.text);
      if (!first) return unknown(run, "fail");
      outcome = *first;
    }
    if (outcome == FailOutcome::stale) return refused(run, "fail");
    const bool dead = outcome == FailOutcome::dead;
    context_.core.telemetry.failed.add();
    if (dead) context_.core.telemetry.dead.add();
    context_.core.logger->log(
        dead ? spdlog::level::warn : spdlog::level::info,
        "task failed id={} version={} type={} worker={} attempt={} outcome={}", key.id.value,
        key.version.value, run->task.type, context_.name, run->task.attempts, to_string(outcome));
    settled(run, dead ? TaskEventType::dead : TaskEventType::failed);
  });
}

void Settler::settled(const TaskRunPtr& run, TaskEventType how) {
  context_.board.settled({&run, 1});
  context_.telemetry.record(how, *run, run->run_time);
}

void Settler::refused(const TaskRunPtr& run, const char* what) {
  context_.board.settled({&run, 1});
  context_.count_stale_write(*run);
  context_.tell_of_loss(*run, WorkerContext::why_stale(*context_.core.store, run->task.key.id),
                        what);
}

void Settler::unknown(const TaskRunPtr& run, const char* what) {
  context_.board.settled({&run, 1});
  context_.core.logger->warn("task outcome unknown id={} version={} worker={} during={}",
                             run->task.key.id.value, run->task.key.version.value, context_.name,
                             what);
}

}  // namespace leasehold::inline v0
