#include "leasehold/worker.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "support/quote.hpp"
#include "support/thread_safety.hpp"
#include "tasks/queue_core.hpp"
#include "tasks/runtime/worker_run.hpp"
#include "tasks/validation.hpp"

namespace leasehold::inline v0 {

RetryLater::RetryLater(std::chrono::milliseconds delay)
    : Error("to be retried in " + std::to_string(delay.count()) + " ms"), delay_(delay) {
  check_delay("retry delay", delay);
}

Task::Task(WorkerRun& worker, std::shared_ptr<TaskRun> run) noexcept
    : TaskAttempt(&run->task), worker_(worker), run_(std::move(run)) {}

std::stop_token Task::stop_token() const noexcept { return run_->stop.get_token(); }
StopReason Task::stop_reason() const noexcept { return run_->reason.load(); }
bool Task::shutting_down() const noexcept { return worker_.shutting_down(); }

LeaseWrite Task::progress(std::string_view json) { return worker_.progress(run_, json); }

void Task::set_result(std::string_view json) {
  worker_.check_result(json);
  run_->result = json;
}

struct Worker::State {
  State(std::shared_ptr<QueueCore> queue, WorkerOptions given)
      : core(std::move(queue)),
        options(std::move(given)),
        name(options.name.empty() ? core->runner.str() : options.name),
        telemetry(options.observer, core->logger) {}

  const std::shared_ptr<QueueCore> core;
  const WorkerOptions options;
  const std::string name;
  std::vector<TaskKind> kinds;
  WorkerTelemetry telemetry;
  std::stop_source now;

  void check_not_running(const char* what) {
    const ThreadLock lock(mutex);
    if (run != nullptr)
      throw InvalidArgument(std::string(what) + " of a worker that is already running");
  }

  ThreadMutex mutex;
  WorkerRun* run LEASEHOLD_GUARDED_BY(mutex) = nullptr;
};

Worker::Worker(TaskQueue& queue, WorkerOptions options) {
  check_worker_options(options);
  state_ = std::make_unique<State>(QueueCore::of(queue), std::move(options));
}

Worker::~Worker() = default;

void Worker::on(std::string type, TaskHandler handler, HandlerOptions options) {
  state_->check_not_running("on()");
  check_handler(type, options);
  state_->core->retry_after(options.retry, 1);  // checks it
  if (!handler) throw InvalidArgument("task type " + in_quotes(type) + " has an empty handler");
  auto& kinds = state_->kinds;
  if (std::any_of(kinds.begin(), kinds.end(), [&](const auto& k) { return k.type == type; })) {
    throw InvalidArgument("task type " + in_quotes(type) + " already has a handler");
  }
  const auto keep =
      options.retention ? QueueCore::keep_by(*options.retention) : state_->core->keep();
  kinds.push_back({std::move(type), std::move(handler), options, keep});
}

void Worker::run(const std::stop_token& stop) {
  if (state_->kinds.empty()) throw InvalidArgument("a worker without handlers cannot run");
  state_->check_not_running("run()");
  WorkerRun run(*state_->core, state_->options, state_->name, state_->kinds, state_->telemetry);
  const auto present = [this](WorkerRun* now) {
    const ThreadLock lock(state_->mutex);
    state_->run = now;
  };
  present(&run);
  try {
    run.run(stop, state_->now.get_token());
  } catch (...) {  // a thread could not be started
    present(nullptr);
    throw;
  }
  present(nullptr);
}

void Worker::stop_now() noexcept { state_->now.request_stop(); }

WorkerStats Worker::stats() const {
  WorkerStats stats = state_->telemetry.snapshot();
  const ThreadLock lock(state_->mutex);
  if (state_->run != nullptr) {
    const auto load = state_->run->load();
    stats.running = load.running;
    stats.prefetched = load.queued;
    stats.settling = load.settling;
  }
  return stats;
}

}  // namespace leasehold::inline v0
