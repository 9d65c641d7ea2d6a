#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "leasehold/errors.hpp"
#include "leasehold/export.hpp"
#include "leasehold/task.hpp"
#include "leasehold/task_lease.hpp"
#include "leasehold/task_queue.hpp"
#include "leasehold/worker_observer.hpp"

namespace leasehold::inline v0 {

class WorkerRun;  // internal: one call of Worker::run()
struct TaskRun;   // internal: a task in it

/// Thrown by a handler: not now. The task is given back and not tried again for this long; the
/// attempt is not counted.
class LEASEHOLD_API RetryLater : public Error {
 public:
  /// 0 to 10 years.
  explicit RetryLater(std::chrono::milliseconds delay);

  std::chrono::milliseconds delay() const noexcept { return delay_; }

 private:
  std::chrono::milliseconds delay_;
};

/// Thrown by a handler: never again. The task is dead at once, with this message.
class LEASEHOLD_API DeadLetter : public Error {
 public:
  using Error::Error;
};

/// A task as its handler sees it.
///
/// The worker renews the lease while the handler runs, on a thread of its own: a handler that
/// blocks keeps its lease. Once stop_token() has fired the task is not ours any more, whatever the
/// reason: whatever the handler then does, returns or throws changes nothing.
///
/// Thread safety: const members from any thread while the handler runs; the others from one thread
/// at a time.
class LEASEHOLD_API Task {
 public:
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  TaskId id() const noexcept;
  /// Grows with every lease: hand it to whatever should refuse a worker that came too late.
  TaskVersion version() const noexcept;
  const std::string& type() const noexcept;
  const std::string& payload() const noexcept;  ///< JSON
  int priority() const noexcept;

  /// 1 for the first.
  int attempt() const noexcept;
  int max_attempts() const noexcept;
  /// How many earlier leases of this task expired.
  int crash_count() const noexcept;
  /// What an earlier attempt reported last, or this one. JSON; empty if nothing was.
  const std::string& last_progress() const noexcept;

  /// Stores how far the work has come: JSON, at most TaskQueueOptions::largest_payload bytes.
  /// Throws as TaskQueue does; who does not care whether PostgreSQL is away catches Unavailable and
  /// OutcomeUnknown. On `stale` the token has fired, or does so as soon as the reason is known.
  LeaseWrite progress(std::string_view json);

  /// Kept with the task when the handler returns. JSON.
  void set_result(std::string_view json);

  /// Fires when the lease is lost, the task is cancelled, the handler's deadline has passed, or the
  /// worker stops and its grace period is over. Losses and cancellations are found by the next
  /// renewal, within a third of the lease. Callbacks on it run on the worker's own threads: be
  /// quick.
  std::stop_token stop_token() const noexcept;
  /// Why it fired.
  StopReason stop_reason() const noexcept;

  /// The worker was asked to stop, and the grace period runs: a long handler can save its progress
  /// and throw RetryLater.
  bool shutting_down() const noexcept;

 private:
  friend class WorkerRun;
  Task(WorkerRun& worker, std::shared_ptr<TaskRun> run) noexcept;

  WorkerRun& worker_;
  const std::shared_ptr<TaskRun> run_;
};

/// Returning completes the task. Throwing fails it: the message is kept (its first 4,096 bytes) and
/// the task is tried again by its retry policy; RetryLater and DeadLetter say otherwise.
/// complete_in() in leasehold/postgres.hpp completes it in a transaction of the handler.
/// Called by several threads at once.
using TaskHandler = std::function<void(Task&)>;

/// How one type of task is handled.
struct HandlerOptions {
  /// Tasks of this type that this worker has at a time, those leased ahead counted, 1 to 10,000.
  /// Types with a limit cost a lease call of their own. Default: no limit.
  std::optional<std::size_t> limit;

  /// How long a handler may run, 1 ms to 10 years. Then its token fires and the task is failed at
  /// once; the thread is busy until the handler returns. Default: as long as it likes.
  std::optional<std::chrono::milliseconds> deadline;

  /// When a failed task is tried again. Default: by the queue's policy.
  Retry retry = Retry::by_policy();

  /// Whether completed tasks of this type are deleted at once or kept. For how long they are kept
  /// does not differ by type: remove_finished() and leaseholdd decide that. Default: as the queue's
  /// options say.
  std::optional<Retention> retention;
};

/// How a worker learns of new tasks, beside looking by itself.
enum class WakeUp {
  listen,  ///< by NOTIFY, on one more connection. Loses nothing but time when it does not work
  poll,    ///< not at all. For PgBouncer, through which LISTEN does not work
};

struct WorkerOptions {
  /// Threads that run handlers, 1 to 1,024. Default 4.
  std::size_t concurrency = 4;

  /// How long a crash of this worker delays its tasks. Renewed every third of it, all leases in one
  /// statement on a connection of its own. 100 ms to 24 h; below some seconds a busy machine loses
  /// leases. Default 30 s.
  std::chrono::milliseconds lease{30'000};

  /// Tasks leased ahead, at most, 0 to 8,000: as many as will probably start within 100 ms, by how
  /// long handlers took lately. So quick tasks are leased by the hundred, and slow ones are left to
  /// other workers. One that was not started after a second is given back. Default 1,000.
  std::size_t prefetch = 1'000;

  /// How often to look for tasks: after `poll_min` when there were some lately, then less and less
  /// often up to `poll_max`; each shortened by up to a half at random. 1 ms to 1 h. An idle worker
  /// costs PostgreSQL a query every `poll_max`. Tasks with a delay are found by polling only.
  /// Defaults 20 ms and 1 s.
  std::chrono::milliseconds poll_min{20};
  std::chrono::milliseconds poll_max{1'000};

  /// Default listen.
  WakeUp wake_up = WakeUp::listen;

  /// How long running handlers may go on after a stop, 0 to 24 h. Default 10 s.
  std::chrono::milliseconds stop_grace{10'000};

  /// Who leases: 1 to 256 bytes. Default: the queue's runner.
  std::string name;

  /// Told of everything. Default: nobody.
  std::shared_ptr<TaskObserver> observer;
};

/// Runs handlers for tasks.
///
///     Worker worker{queue, {.concurrency = 8}};
///     worker.on("video", [](Task& task) { render(task.payload()); });
///     worker.run(stop);
///
/// Beside its handler threads it has one that leases, one that renews all leases in one statement,
/// one that writes outcomes (completions together, within a few milliseconds), and one that
/// listens. It shares the queue's connections with the application, renewals apart. A task keeps
/// its place and its lease until the store has acknowledged its outcome; while PostgreSQL is away
/// outcomes are kept and written later.
///
/// Thread safety: stop_now() and stats() from any thread; the others from one thread at a time.
class LEASEHOLD_API Worker {
 public:
  explicit Worker(TaskQueue& queue, WorkerOptions options = {});
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Who handles a type; each has one handler. Before run().
  void on(std::string type, TaskHandler handler, HandlerOptions options = {});

  /// Works until `stop` is requested, and then stops gracefully:
  ///
  /// 1. at once: nothing is leased any more, and what was not started is given back;
  /// 2. for up to `stop_grace` running handlers go on;
  /// 3. then their tokens fire and their tasks are given back, the attempts not counted;
  /// 4. returns when all handlers have returned and all outcomes are written. Gives up writing 5 s
  ///    after the last handler returned: those leases expire.
  ///
  /// So it takes `stop_grace` + 5 s at most, and as long as handlers need to heed their tokens (a
  /// thread can not be killed), and if PostgreSQL is silent, the queue's connect_timeout and
  /// command_timeout.
  ///
  /// Throws InvalidArgument if there is no handler. An unreachable PostgreSQL is not an error: it
  /// is logged once, and tried again until it is back.
  void run(const std::stop_token& stop);

  /// For a second signal: ends the grace period of the present run(), and of any later one.
  void stop_now() noexcept;

  WorkerStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leasehold::inline v0
