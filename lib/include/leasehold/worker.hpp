#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "leasehold/errors.hpp"
#include "leasehold/export.hpp"
#include "leasehold/task.hpp"
#include "leasehold/task_lease.hpp"
#include "leasehold/task_queue.hpp"
#include "leasehold/worker_observer.hpp"
#include "leasehold/worker_stats.hpp"

namespace leasehold::inline v0 {

/// Thrown by a handler to give its task back. The task is not due before `delay` has passed, and
/// the attempt does not count.
class LEASEHOLD_API RetryLater : public Error {
 public:
  /// 0 to 10 years.
  explicit RetryLater(std::chrono::milliseconds delay);

  std::chrono::milliseconds delay() const noexcept { return delay_; }

 private:
  std::chrono::milliseconds delay_;
};

/// Thrown by a handler to give up: the task is dead at once, and the message is stored with it.
class LEASEHOLD_API DeadLetter : public Error {
 public:
  using Error::Error;
};

/// Handles the tasks of one type. If it returns, the task is completed, unless it was completed
/// before by complete_in() (leasehold/postgres.hpp, leasehold/sqlite.hpp). If it throws, the
/// attempt has failed: the first 4,096 bytes of the message are stored, and the task is retried as
/// HandlerOptions::retry says. RetryLater and DeadLetter have meanings of their own, and so have
/// errors that tell of an outage: see Outages.
///
/// Several threads call it at the same time.
using TaskHandler = std::function<void(Task&)>;

/// What it means if a handler throws Unavailable, OutcomeUnknown or a transient ServerRefused: a
/// server that it used through Leasehold was unreachable, or refused to work for the time being.
enum class Outages {
  /// The task is given back and retried after the delay of HandlerOptions::retry (if that is
  /// Retry::never(), of TaskQueueOptions::backoff). The attempt does not count, so that an outage
  /// makes no task dead, however long it lasts.
  forgive,
  /// The attempt has failed, as with any other exception.
  count,
};

/// How the tasks of one type are handled.
struct HandlerOptions {
  /// The most tasks of this type that the worker holds at a time, including those leased ahead.
  /// 1 to 10,000. If any type has a limit, each look for tasks costs one more statement, however
  /// many types have one. Default: no limit.
  std::optional<std::size_t> limit;

  /// How long a handler may run, 1 ms to 10 years. After that its stop token fires and the attempt
  /// has failed. The thread stays occupied until the handler returns. Default: no limit.
  std::optional<std::chrono::milliseconds> deadline;

  /// Whether and when failed tasks are retried. Default: by the policy of the queue.
  Retry retry = Retry::by_policy();

  /// Whether completed tasks of this type are deleted at once or kept. The time in keep_for() has
  /// no effect here: remove_finished() or leaseholdd decides it for all types. Default: as
  /// TaskQueueOptions::retention says.
  std::optional<Retention> retention;

  /// Default: forgive.
  Outages outages = Outages::forgive;
};

/// How a worker learns of new tasks, in addition to polling.
enum class WakeUp {
  /// By notifications: in PostgreSQL with LISTEN, which costs one more connection. A notification
  /// that is lost only delays a task.
  listen,
  /// By polling alone. For PgBouncer in transaction mode, which does not support LISTEN.
  poll,
};

struct WorkerOptions {
  /// The number of threads that run handlers, 1 to 1,024. Default 4.
  std::size_t concurrency = 4;

  /// How long the tasks of this worker wait after it has crashed. All leases are renewed together
  /// every third of this time, in one statement on a separate connection. 100 ms to 24 h; if it is
  /// below a few seconds, a busy machine can lose leases. Default 30 s.
  std::chrono::milliseconds lease{30'000};

  /// The most tasks leased ahead, 0 to 8,000. The worker leases as many as will probably start
  /// within 100 ms, judging by how long handlers took recently. Short tasks are therefore leased by
  /// the hundred, and long ones are left to other workers. A task that was not started within a
  /// second is given back. Default 1,000.
  std::size_t prefetch = 1'000;

  /// The most bytes of payloads and progress of tasks that are leased ahead, 0 to 1 GiB. A single
  /// task may exceed it. 0: nothing is leased ahead. The worker needs this much memory for them,
  /// and up to 32 MiB while it reads them, in addition to the payloads of the tasks that run.
  /// Default 16 MiB.
  std::size_t prefetch_bytes = 16 * 1024 * 1024;

  /// How often to look for tasks: after `poll_min` if there were some recently, then less and less
  /// often, up to `poll_max`. Each pause is shortened by a random share of up to one half. 1 ms to
  /// 1 h. An idle worker costs the store one to two queries per `poll_max`. Tasks whose `run_at`
  /// was in the future are found by polling only. Defaults: 20 ms and 1 s.
  ///
  /// If more processes share the queue than `poll_max` / 40 ms (with the default: more than 25), a
  /// worker that gets notifications pauses for up to 40 ms per process, so that an idle fleet of
  /// any size costs 25 to 50 queries a second. A task is then found as quickly as before if many
  /// workers handle its type. If only one of 1,000 processes does, it can take 40 s, whether the
  /// task was announced or became due later.
  std::chrono::milliseconds poll_min{20};
  std::chrono::milliseconds poll_max{1'000};

  /// Default: listen.
  WakeUp wake_up = WakeUp::listen;

  /// How long handlers may continue after the worker was asked to stop, 0 to 24 h. Default 10 s.
  std::chrono::milliseconds stop_grace{10'000};

  /// The name under which tasks are leased: 1 to 256 bytes of UTF-8 without control characters.
  /// Default: the runner of the queue.
  std::string name;

  /// Receives all events of this worker. Default: none.
  std::shared_ptr<TaskObserver> observer;
};

/// Leases tasks and runs handlers for them.
///
///     Worker worker{queue, {.concurrency = 8}};
///     worker.on("video", [](Task& task) { render(task.payload()); });
///     worker.run(stop);
///
/// In addition to its handler threads, a worker has one thread that leases, one that renews all
/// leases, one that writes outcomes (all completions of the last few milliseconds in one
/// statement), and one that listens. It shares the queue's connections with the application, except
/// for renewals. A task keeps its place and its lease until the store has acknowledged its outcome.
/// While the store is unreachable, outcomes are kept and written later. An outcome that the store
/// refuses for good becomes a failed attempt. An exception that the store should not throw is
/// logged, and the worker tries again.
///
/// Thread safety: stop_now() and stats() may be called from any thread, the others from one thread
/// at a time.
class LEASEHOLD_API Worker {
 public:
  explicit Worker(TaskQueue& queue, WorkerOptions options = {});
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Sets the handler of a type. Each type has one. Call it before run().
  void on(std::string type, TaskHandler handler, HandlerOptions options = {});

  /// Works until `stop` is requested, and then stops in this order:
  ///
  /// 1. At once: nothing more is leased, and tasks that were not started are given back.
  /// 2. For up to `stop_grace`, running handlers continue.
  /// 3. Then their stop tokens fire and their tasks are given back; these attempts do not count.
  /// 4. run() returns when all handlers have returned and all outcomes are written. It stops trying
  ///    to write 5 s after the last handler returned; the leases of the remaining tasks expire.
  ///
  /// So stopping takes at most `stop_grace` + 5 s, plus the time that handlers take to react to
  /// their stop tokens (a thread cannot be killed), plus connect_timeout and command_timeout if
  /// PostgreSQL does not answer.
  ///
  /// Throws InvalidArgument if there is no handler. An unreachable store is not an error: the
  /// worker logs it once and keeps trying.
  void run(const std::stop_token& stop);

  /// Ends the grace period of the current run(), and of any later one. For a second signal.
  void stop_now() noexcept;

  WorkerStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leasehold::inline v0
