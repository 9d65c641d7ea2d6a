#include "tasks/runtime/settler.hpp"

#include <spdlog/logger.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "support/log_event.hpp"
#include "support/sleep.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;
using Kind = TaskOutcome::Kind;
using Reason = ServerRefused::Reason;

/// The most bytes in one statement: far below what a server accepts, and no more than it can move
/// within a time-out.
constexpr std::size_t most_bytes_at_once = 16 * 1024 * 1024;

/// After this many refusals for good an outcome is replaced, and then the lease is given up.
constexpr int most_refusals = 5;

/// The most bytes of the store's words, and of the handler's error, in the failure that replaces an
/// outcome.
constexpr std::size_t most_words = 1'000;
constexpr std::size_t most_of_error = 3'000;

/// Of results, and of what the store has to move with tasks that end.
std::size_t bytes_of(const std::vector<TaskRunPtr>& runs) {
  return std::accumulate(runs.begin(), runs.end(), std::size_t{0},
                         [](std::size_t sum, const TaskRunPtr& run) {
                           return sum + run->bytes + run->outcome.text.size();
                         });
}

bool is_too_large(const std::vector<TaskRunPtr>& runs) {
  return runs.size() > 1 && bytes_of(runs) > most_bytes_at_once;
}

/// Whether a refusal may be due to a single task: the store would accept others.
bool concerns_one(const ServerRefused& refused) {
  return refused.reason() == Reason::other || refused.reason() == Reason::out_of_memory ||
         refused.reason() == Reason::conflict ||
         refused.reason() == Reason::newer_schema;  // a state of the task that is not known
}

/// Whether an outcome that was written by itself will probably be refused again and again. So will
/// what no store should throw, and nobody knows whether that passes.
bool is_final(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ServerRefused& refused) {
    return concerns_one(refused) && !refused.transient();
  } catch (const std::bad_alloc&) {
    return false;  // others may return memory
  } catch (const Error&) {
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

std::string words_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
}

/// A text that a database of any encoding can store.
std::string in_ascii(std::string_view text) {
  std::string ascii(text);
  std::replace_if(
      ascii.begin(), ascii.end(),
      [](char c) { return c == '\0' || static_cast<unsigned char>(c) > 0x7f; }, '?');
  return ascii;
}

/// Whether the store refused the whole batch, perhaps because of a single task, so that the others
/// would be accepted without it.
bool refused_as_one(const WriteResults& results) {
  const auto undecided =
      std::count(results.each.begin(), results.each.end(), WriteResult::undecided);
  if (!results.error || undecided < std::ssize(results.each) || undecided == 1) return false;
  try {
    std::rethrow_exception(results.error);
  } catch (const ServerRefused& refused) {
    return concerns_one(refused);
  } catch (const Error&) {
    return false;
  } catch (const std::exception&) {  // std::bad_alloc, for one
    return true;
  }
}

/// Makes a write. What no store should throw becomes part of the results too; then nobody knows
/// whether the write was executed.
template <typename Write>
auto attempt(const std::vector<TaskRunPtr>& runs, Write&& write) -> decltype(write()) {
  try {
    return write();
  } catch (const std::exception&) {
    for (const TaskRunPtr& run : runs) {
      run->in_doubt = true;
      run->release_in_doubt = run->outcome.kind == Kind::release;
    }
    decltype(write()) results;
    results.each.assign(runs.size(), WriteResult::undecided);
    results.error = std::current_exception();
    return results;
  }
}

/// In eighths, so that one task that is refused again and again does not hold up the others. Not in
/// halves: if its row is locked, every statement that contains it waits.
template <typename Write>
void write_parts(const std::vector<TaskRunPtr>& runs, Write&& write) {
  const std::ptrdiff_t size = (std::ssize(runs) + 7) / 8;
  for (auto begin = runs.begin(); begin != runs.end();) {
    const auto end = begin + std::min(size, runs.end() - begin);
    write({begin, end});
    begin = end;
  }
}

}  // namespace

Settler::Settler(const WorkerContext& context)
    : context_(context),
      writes_(*context.core.store, context.core.telemetry, *context.core.logger, LostReply::report),
      why_(*context.core.store) {}

void Settler::run(const std::stop_token& stop) {
  Backoff again(milliseconds{50}, milliseconds{2'000});
  while (!stop.stop_requested()) {
    Runs taken;
    Runs left;
    bool failed = false;
    try {
      taken = context_.board.take_outcomes(stop);
      left = settle(taken, stop);
      save_progress(stop);
    } catch (const std::exception& error) {
      context_.outage.failed("settle", error);
      left = std::move(taken);
      failed = true;
    }
    context_.board.put_back(std::move(left));
    if (failed || away_) {
      sleep_for(again.next(), stop);
    } else {
      again.reset();
    }
  }
}

Settler::Runs Settler::settle(Runs runs, const std::stop_token& stop) {
  std::map<Keep, Runs> completed;
  std::map<std::pair<std::optional<milliseconds>, GivenBack>, Runs> released;
  Runs failed;
  Runs alone;
  stop_ = stop;
  why_ = LossReasons(*context_.core.store);
  away_ = false;
  locked_ = false;
  unwritten_.clear();
  for (TaskRunPtr& run : runs) {
    const bool completes = run->outcome.kind == Kind::complete;
    if (!completes && run->unsaved && !save(*run, *run->unsaved)) {
      unwritten_.push_back(std::move(run));
      continue;
    }
    if (!completes) run->unsaved.reset();  // a completion may become a failure
    if (run->settles_alone) {
      alone.push_back(std::move(run));
    } else if (completes) {
      completed[run->kind.keep].push_back(std::move(run));
    } else if (run->outcome.kind == Kind::release) {
      released[{run->outcome.delay, run->outcome.when}].push_back(std::move(run));
    } else {
      failed.push_back(std::move(run));
    }
  }
  for (const auto& [keep, group] : completed) complete(group, keep);
  for (const auto& [_, group] : released) release(group);
  if (!failed.empty()) fail(failed);
  for (const TaskRunPtr& run : alone) {
    if (locked_) {
      unwritten_.push_back(run);
      continue;
    }
    switch (run->outcome.kind) {  // which may change
      case Kind::complete:
        complete({run}, run->kind.keep);
        break;
      case Kind::release:
        release({run});
        break;
      case Kind::fail:
        fail({run});
        break;
    }
  }
  return std::exchange(unwritten_, {});
}

void Settler::save_progress(const std::stop_token& stop) {
  stop_ = stop;
  locked_ = false;
  using Saved = TaskBoard::Saved;
  for (TaskBoard::Unsaved& unsaved : context_.board.take_unsaved()) {
    const bool saved = save(*unsaved.run, unsaved.progress);
    context_.board.saved(std::move(unsaved), saved ? Saved::yes : Saved::not_yet);
  }
}

/// Returns false if it should be tried again. What the store refuses for good is given up.
bool Settler::save(TaskRun& run, std::string_view progress) {
  if (!may_call() || (locked_ && run.settles_alone)) return false;
  try {
    const auto result = writes_.progress(run, progress);
    context_.outage.over();
    if (result == WriteResult::stale) context_.lose(run, why_, "progress");
    return true;
  } catch (const std::exception& error) {
    note_trouble("progress", std::current_exception());
    const bool foreign = dynamic_cast<const Error*>(&error) == nullptr;
    if (!foreign && !tells_of_outage(error)) return true;
    if (foreign && ++run.failed_saves >= most_refusals) return true;
    if (!away_) run.put_off(true);
    return false;
  }
}

void Settler::complete(const Runs& runs, Keep keep) {
  const bool too_large = is_too_large(runs);
  WriteResults results;
  if (!too_large && may_call()) {
    results = attempt(runs, [&] {
      std::vector<FinishedLease> finished;
      finished.reserve(runs.size());
      for (const TaskRunPtr& run : runs) finished.push_back({run.get(), run->outcome.text});
      return writes_.complete(finished, keep);
    });
  }
  if (too_large || refused_as_one(results)) {
    return write_parts(runs, [&](const Runs& part) { complete(part, keep); });
  }
  apply("complete", runs, results, [](std::size_t) { return TaskEventType::completed; });
}

void Settler::release(const Runs& runs) {
  LeaseWrites::Endings results;
  if (may_call()) {
    results = attempt(runs, [&] {
      std::vector<HeldLease*> leases;
      leases.reserve(runs.size());
      for (const TaskRunPtr& run : runs) leases.push_back(run.get());
      const TaskOutcome& outcome = runs.front()->outcome;
      return writes_.release(leases, outcome.delay, outcome.when);
    });
  }
  if (refused_as_one(results)) {
    return write_parts(runs, [&](const Runs& part) { release(part); });
  }
  apply("release", runs, results, [&](std::size_t i) {
    return results.states[i] == TaskState::completed ? TaskEventType::completed
                                                     : TaskEventType::released;
  });
}

void Settler::fail(const Runs& runs) {
  const bool too_large = is_too_large(runs);
  LeaseWrites::Endings results;
  if (!too_large && may_call()) {
    results = attempt(runs, [&] {
      std::vector<FailedLease> failed;
      failed.reserve(runs.size());
      for (const TaskRunPtr& run : runs) {
        failed.push_back({run.get(), run->outcome.text, run->outcome.delay});
      }
      return writes_.fail(failed);
    });
  }
  if (too_large || refused_as_one(results)) {
    return write_parts(runs, [&](const Runs& part) { fail(part); });
  }
  for (std::size_t i = 0; i < results.each.size(); ++i) {
    if (results.each[i] != WriteResult::accepted) continue;
    if (results.states[i] == TaskState::completed) continue;
    const LeasedTask& task = runs[i]->task;
    const bool dead = results.states[i] == TaskState::dead;
    log_event(*context_.core.logger, dead ? spdlog::level::warn : spdlog::level::info,
              "task failed",
              {{"id", task.key.id.value},
               {"version", task.key.version.value},
               {"type", task.type},
               {"worker", context_.name},
               {"attempt", task.attempts},
               {"outcome", to_string(dead ? FailOutcome::dead : FailOutcome::retried)}});
  }
  apply("fail", runs, results, [&](std::size_t i) {
    if (results.states[i] == TaskState::completed) return TaskEventType::completed;
    return results.states[i] == TaskState::dead ? TaskEventType::dead : TaskEventType::failed;
  });
}

/// Notes what became of a write. Without results it was not made.
void Settler::apply(const char* what, const Runs& runs, const WriteResults& results,
                    const std::function<TaskEventType(std::size_t)>& event) {
  if (results.each.empty()) {
    unwritten_.insert(unwritten_.end(), runs.begin(), runs.end());
    return;
  }
  if (results.error) {
    note_trouble(what, results.error);
  } else {
    context_.outage.over();
  }
  // First those that are done: what is said about the others takes a look-up each.
  Runs done;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (results.each[i] == WriteResult::accepted) done.push_back(runs[i]);
  }
  context_.board.settled(done);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (results.each[i] != WriteResult::accepted) continue;
    context_.telemetry.record(event(i), *runs[i], runs[i]->run_time);
  }
  bool first = true;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (results.each[i] == WriteResult::stale) refused(runs[i], what);
    if (results.each[i] == WriteResult::unknown) unknown(runs[i], what);
    if (results.each[i] != WriteResult::undecided) continue;
    if (away_) {
      unwritten_.push_back(runs[i]);
    } else if (runs.size() == 1) {
      undecided(runs[i], what, results.error);
    } else {
      // The look-up of the first failed, and the others were not looked up.
      runs[i]->put_off(std::exchange(first, false));
      unwritten_.push_back(runs[i]);
    }
  }
}

void Settler::note_trouble(const char* what, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ServerRefused& refused) {
    context_.outage.failed(what, refused);
    locked_ = locked_ || refused.reason() == Reason::conflict;
    away_ = away_ || !concerns_one(refused);
  } catch (const Error& unreachable) {
    context_.outage.failed(what, unreachable);
    away_ = true;
  } catch (const std::exception& foreign) {
    context_.outage.failed(what, foreign);
  }
}

/// The lease was gone when the outcome was to be written.
void Settler::refused(const TaskRunPtr& run, const char* what) {
  context_.board.settled({&run, 1});
  context_.count_stale_write(*run);
  context_.tell_of_loss(*run, why_.look_up(run->task.key.id), what);
}

/// The outcome may have been written, but nobody can tell any more.
void Settler::unknown(const TaskRunPtr& run, const char* what) {
  context_.board.settled({&run, 1});
  log_warn(*context_.core.logger, "task outcome unknown",
           {{"id", run->task.key.id.value},
            {"version", run->task.key.version.value},
            {"worker", context_.name},
            {"during", what}});
}

/// An outcome was refused by itself, and the store would accept others.
void Settler::undecided(const TaskRunPtr& run, const char* what, const std::exception_ptr& error) {
  if (is_final(error) && ++run->refusals >= most_refusals) {
    const std::string refusal = words_of(error);
    // A release has no text that could be the reason: a failure would be refused as well.
    if (run->replaced || run->outcome.kind == Kind::release) return give_up(run, what, refusal);
    replace(*run, refusal);
  } else {
    run->put_off(true);
  }
  unwritten_.push_back(run);
}

/// From now on the attempt has failed.
void Settler::replace(TaskRun& run, std::string_view refusal) {
  const std::string words = in_ascii(refusal.substr(0, most_words));
  const TaskOutcome& was = run.outcome;
  TaskOutcome failure{.kind = Kind::fail};
  if (was.kind == Kind::fail) {
    failure.text = in_ascii(std::string_view(was.text).substr(0, most_of_error)) +
                   " (the error as it was could not be stored: " + words + ")";
    failure.delay = was.delay;
  } else {
    failure.text =
        (was.text.empty() ? "the completion" : "the result") + (" could not be stored: " + words);
    failure.delay = context_.core.retry_after(run.kind.options.retry, run.task.attempts);
  }
  context_.board.replace_outcome(run, std::move(failure));
  run.replaced = true;
  run.refusals = 0;
  run.again.reset();
  run.retry_at = {};
}

void Settler::give_up(const TaskRunPtr& run, const char* what, std::string_view refusal) {
  context_.board.settled({&run, 1});
  log_warn(*context_.core.logger, "task outcome given up, its lease will expire",
           {{"id", run->task.key.id.value},
            {"version", run->task.key.version.value},
            {"worker", context_.name},
            {"during", what},
            {"error", refusal}});
}

}  // namespace leasehold::inline v0
