#include "tasks/runtime/worker_run.hpp"

#include <spdlog/logger.h>

#include <algorithm>
#include <utility>

#include "leasehold/errors.hpp"
#include "support/backoff.hpp"
#include "support/log_event.hpp"
#include "support/sleep.hpp"
#include "support/start_thread.hpp"
#include "tasks/validation.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// How long a stop waits for outcomes to be written after the last handler has returned.
constexpr milliseconds longest_settling{5'000};
// And after the last lease call.
constexpr milliseconds shortest_settling{1'000};

// After that a task is tried again if there was no memory for its error.
constexpr milliseconds without_memory{1'000};

/// The time since it was due, by our own clock.
microseconds waited(const LeasedTask& task) {
  const auto now =
      std::chrono::duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch());
  return std::max(now - microseconds{task.run_at_us}, microseconds{0});
}

}  // namespace

WorkerRun::WorkerRun(QueueCore& core, const WorkerOptions& options, const std::string& name,
                     std::span<const TaskKind> kinds, WorkerTelemetry& telemetry)
    : board_(kinds, options.concurrency, options.prefetch, options.prefetch_bytes,
             core.options.recovery.value_or(RecoveryOptions{}).max_crashes),
      outage_(core.logger, name),
      context_{core, options, name, board_, telemetry, outage_},
      leaser_(context_, kinds),
      renewer_(context_),
      settler_(context_) {}

void WorkerRun::run(const std::stop_token& stop, const std::stop_token& now) {
  // The destructors end the threads in the reverse order: those that are needed longest come first.
  // Nothing is leased until all others run.
  const auto start = [](auto work) { return start_thread("of a worker", std::move(work)); };
  std::jthread renewing = start([this](const std::stop_token& end) { renewer_.run(end); });
  std::jthread settling = start([this](const std::stop_token& end) { settler_.run(end); });
  std::vector<std::jthread> handling;
  for (std::size_t i = 0; i < context_.options.concurrency; ++i) {
    handling.push_back(start([this](const std::stop_token& end) { handle(end); }));
  }
  std::jthread listening;
  if (context_.options.wake_up == WakeUp::listen) {
    listening = start([this](const std::stop_token& end) { listen(end); });
  }
  std::jthread leasing = start([this](const std::stop_token& end) { leaser_.run(end); });
  const std::stop_callback on_stop(stop, [this] { board_.poke(); });
  const std::stop_callback on_now(now, [this] { board_.poke(); });

  using Load = TaskBoard::Load;
  constexpr auto ever = Clock::time_point::max();
  watch(ever, [&](const Load&) { return stop.stop_requested() || now.stop_requested(); });

  shutting_down_ = true;
  listening.request_stop();
  leasing.request_stop();
  board_.close();
  watch(Clock::now() + context_.options.stop_grace, [&](const Load& load) {
    return now.stop_requested() || load.running + load.settling == 0;
  });

  for (const TaskBoard::Alarm& told : board_.call_off()) told.run->tell(told.reason);
  watch(ever, [](const Load& load) { return load.running == 0; });
  const auto give_up_at = Clock::now() + longest_settling;
  leasing.join();  // the tasks that it has just leased are given back, however long that took
  give_back_lost();
  watch(std::max(give_up_at, Clock::now() + shortest_settling),
        [](const Load& load) { return load.settling == 0; });
  if (const auto left = board_.load().settling; left > 0) {
    log_warn(*context_.core.logger,
             "worker stopped with outcomes not written, their leases will expire",
             {{"worker", context_.name}, {"tasks", left}});
  }
  // Both at once, because each may have to wait for an answer that does not come.
  settling.request_stop();
  renewing.request_stop();
}

/// Otherwise a lease whose reply was lost would have to expire.
void WorkerRun::give_back_lost() {
  try {
    context_.core.store->give_back_lost();
  } catch (const std::exception& error) {
    context_.outage.failed("give back", error);
  }
}

/// Watches deadlines and the end of trust until `done`, which is asked under the board's mutex.
void WorkerRun::watch(Clock::time_point until,
                      const std::function<bool(const TaskBoard::Load&)>& done) {
  const auto give_up = [this](const TaskRun& run) {
    return failure(run, "the handler's deadline of " +
                            std::to_string(run.kind.options.deadline->count()) + " ms has passed");
  };
  while (true) {
    const TaskBoard::Alarms alarms = board_.ring(Clock::now(), give_up);
    for (const TaskBoard::Alarm& alarm : alarms.due) {
      if (alarm.reason == StopReason::lease_lost) {
        context_.tell_of_loss(*alarm.run, alarm.reason, "wait");
      } else {
        alarm.run->tell(alarm.reason);
      }
    }
    if (board_.wait(std::min(alarms.next, until), done) || Clock::now() >= until) return;
  }
}

void WorkerRun::handle(const std::stop_token& stop) {
  while (const TaskRunPtr run = board_.next(stop)) {
    context_.telemetry.record(TaskEventType::started, *run, waited(run->task));
    const auto begun = Clock::now();
    TaskOutcome outcome = call_handler(run);
    run->forget_payload();
    context_.telemetry.returned(std::chrono::duration_cast<microseconds>(Clock::now() - begun));
    switch (board_.returned(run, std::move(outcome))) {
      case TaskBoard::Return::completed:
        context_.telemetry.record(TaskEventType::completed, *run, run->run_time);
        break;
      case TaskBoard::Return::refused:
        context_.count_stale_write(*run);
        break;
      case TaskBoard::Return::settling:
      case TaskBoard::Return::too_late:
        break;
    }
  }
}

TaskOutcome WorkerRun::call_handler(const TaskRunPtr& run) {
  try {
    return outcome_of_handler(run);
  } catch (const std::bad_alloc&) {  // while the error was copied
    // A text so short that it needs no memory.
    return {.kind = TaskOutcome::Kind::fail, .text = "out of memory", .delay = without_memory};
  }
}

TaskOutcome WorkerRun::outcome_of_handler(const TaskRunPtr& run) {
  Task task(*this, run);
  try {
    run->kind.handler(task);
    return {.kind = TaskOutcome::Kind::complete, .text = std::move(run->result)};
  } catch (const RetryLater& later) {
    return {.kind = TaskOutcome::Kind::release, .delay = later.delay()};
  } catch (const DeadLetter& dead) {
    return {.kind = TaskOutcome::Kind::fail, .text = as_kept_error(dead.what())};
  } catch (const std::exception& error) {
    if (run->kind.options.outages == Outages::forgive && tells_of_outage(error)) {
      return after_outage(*run, error.what());
    }
    return failure(*run, error.what());
  } catch (...) {
    return failure(*run, "the handler threw something that is not a std::exception");
  }
}

TaskOutcome WorkerRun::after_outage(const TaskRun& run, std::string_view error) const {
  log_info(*context_.core.logger, "task given back after an outage",
           {{"id", run.task.key.id.value},
            {"version", run.task.key.version.value},
            {"worker", context_.name},
            {"error", error}});
  auto delay = context_.core.retry_after(run.kind.options.retry, run.task.attempts);
  if (!delay) delay = context_.core.retry_after(Retry::by_policy(), run.task.attempts);
  return {.kind = TaskOutcome::Kind::release, .delay = delay};
}

TaskOutcome WorkerRun::failure(const TaskRun& run, std::string_view error) const {
  return {.kind = TaskOutcome::Kind::fail,
          .text = as_kept_error(error),
          .delay = context_.core.retry_after(run.kind.options.retry, run.task.attempts)};
}

/// Notifications are only hints: the leaser also polls.
void WorkerRun::listen(const std::stop_token& stop) {
  Backoff again(milliseconds{200}, milliseconds{10'000});
  bool said = false;  // once per outage
  while (!stop.stop_requested()) {
    try {
      const auto listener = context_.core.store->listen();
      if (!listener) return;
      while (!stop.stop_requested()) {
        const News news = listener->wait(stop);
        again.reset();
        said = false;
        leaser_.set_listening(true);
        board_.announce(news);
        if (const auto time = leaser_.time_to_rest(); time > milliseconds{0}) {
          listener->rest(time, stop);
        }
      }
    } catch (const std::exception& error) {
      leaser_.set_listening(false);
      if (!std::exchange(said, true)) {
        log_info(*context_.core.logger, "worker gets no notifications, polls for tasks",
                 {{"worker", context_.name}, {"error", error.what()}});
      }
      sleep_for(again.next(), stop);
    }
  }
}

LeaseWrite WorkerRun::progress(const TaskRunPtr& run, std::string_view json) {
  const auto stage = board_.stage(*run);
  check_not_handed_over(stage, run->task.key, "progress");
  if (stage == LeaseStage::held) {
    check_json("progress", json, context_.core.options.largest_payload);
    const LeaseWrite write = write_progress(run, json);
    if (write != LeaseWrite::stale) {
      run->task.progress = json;
      return write;
    }
    LossReasons why(*context_.core.store);
    context_.lose(*run, why, "progress");
  }
  context_.count_stale_write(*run);
  return LeaseWrite::stale;
}

LeaseWrite WorkerRun::write_progress(const TaskRunPtr& run, std::string_view json) {
  // Older progress that is being written now must not come after this.
  if (!board_.has_unsaved(*run)) {
    try {
      const auto result = context_.core.writes.progress(*run, json);
      return result == WriteResult::accepted ? LeaseWrite::accepted : LeaseWrite::stale;
    } catch (const Error& error) {
      if (!tells_of_outage(error)) throw;
      context_.outage.failed("progress", error);
    }
  }
  return board_.keep_progress(run, json) ? LeaseWrite::deferred : LeaseWrite::stale;
}

void WorkerRun::complete_in(const CallersTransaction& transaction, const TaskRunPtr& run,
                            std::string_view result) {
  TaskStore& store = *context_.core.store;
  store.check_callers(transaction);
  check_result(result);
  if (board_.hand_over(*run) && store.complete_in(transaction, {run->task.key, result},
                                                  run->kind.keep) == LeaseWrite::accepted) {
    return;
  }
  LossReasons why(store);
  context_.lose(*run, why, "complete_in");
  context_.count_stale_write(*run);
  throw lease_lost(run->task.key, context_.name);
}

}  // namespace leasehold::inline v0
