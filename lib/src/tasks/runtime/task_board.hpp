#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "leasehold/recovery_options.hpp"
#include "support/thread_safety.hpp"
#include "tasks/lease_writes.hpp"
#include "tasks/runtime/look_pace.hpp"
#include "tasks/runtime/task_run.hpp"

namespace leasehold::inline v0 {

/// Which tasks a worker holds and how far they have come. All communication between the threads of
/// a worker goes through here. Calls no store. Thread-safe; only hand_over() can wait for a reply
/// from a server.
///
/// A task that crashes its process takes all other leases of that process with it. Those that were
/// leased as started count a crash, although they may be innocent. Two rules keep them from ending
/// as dead:
///
/// 1. A task that was leased as started begins at once or is given back.
/// 2. A dangerous task begins when the worker holds no other, and the worker leases none during the
///    next seconds, because most crashes come at once. After that it works as usual beside the
///    dangerous task, however long that takes.
class TaskBoard {
 public:
  using Clock = TaskRun::Clock;

  TaskBoard(std::span<const TaskKind> kinds, std::size_t concurrency, std::size_t prefetch,
            std::size_t prefetch_bytes = 16 * 1024 * 1024,
            int max_crashes = RecoveryOptions{}.max_crashes);

  /// How long nothing is leased after the start of a dangerous task.
  static constexpr std::chrono::milliseconds longest_alone{5'000};

  // For the thread that leases.

  struct Limited {
    std::size_t lane;
    std::size_t room;
  };
  struct Room {
    std::size_t places = 0;  ///< for tasks of all types
    std::size_t idle = 0;    ///< threads that have nothing to do: the tasks that start at once
    std::size_t bytes = 0;   ///< for tasks that do not start at once
    std::vector<std::size_t> open;  ///< lanes without a limit of their own
    std::vector<Limited> limited;   ///< lanes that are below their limit
  };
  /// Waits until there is enough room to be worth a lease, which then answers all announcements so
  /// far. Returns false once stopped.
  bool wait_for_room(const std::stop_token& stop);
  Room room() const;
  /// Waits until `pause` has passed, or a type is no longer at its limit, or it is time to look for
  /// tasks that were announced. Returns why it is time to look.
  LookPace::Reason wait_to_look(const std::stop_token& stop, std::chrono::milliseconds pause,
                                LookPace& pace);
  /// Tasks were added. Ends wait_to_look() if this worker could lease some of them.
  void announce(const News& news);
  /// Adds tasks that were leased. After close() they are given back.
  void add(std::vector<TaskRunPtr> runs);

  // For handler threads and what they call.

  /// Waits for a task to start, and takes the types in turn. Null once stopped.
  TaskRunPtr next(const std::stop_token& stop);
  enum class Return {
    settling,   ///< the outcome will be written
    completed,  ///< the handler completed the task in a transaction of its own
    refused,    ///< the lease was lost: the outcome changes nothing
    too_late,   ///< another outcome had been decided, because of the deadline or the stop
  };
  Return returned(const TaskRunPtr& run, TaskOutcome outcome);
  LeaseStage stage(const TaskRun& run) const;
  /// Prepares for a handler that completes the task in its own transaction, which locks the row:
  /// from now on the worker does not touch it. Waits for a renewal that is under way. Returns false
  /// if the lease is gone.
  bool hand_over(TaskRun& run);
  /// Whether the worker still has to write progress of this task.
  bool has_unsaved(const TaskRun& run) const;
  /// Keeps progress that could not be written, in place of what was kept before. Returns false if
  /// the lease is gone.
  bool keep_progress(const TaskRunPtr& run, std::string_view json);

  // For the thread that renews.

  /// Waits while there is nothing to renew.
  void wait_for_leases(const std::stop_token& stop);
  std::vector<TaskRunPtr> begin_renewal(Clock::time_point granted_before);
  /// `renewal`: what became of `runs`; null if that is not known. Returns the tasks that have lost
  /// their lease and are with their handlers.
  std::vector<TaskRunPtr> end_renewal(std::span<const TaskRunPtr> runs,
                                      const LeaseWrites::Renewal* renewal);

  // For the thread that writes outcomes.

  /// Waits for outcomes: until nothing else is under way, or there are many, or for a few
  /// milliseconds. The last ones were put back, and their time has come. Empty once stopped, or if
  /// there is only progress to be written.
  std::vector<TaskRunPtr> take_outcomes(const std::stop_token& stop);
  /// Keeps outcomes that could not be written until their `retry_at`. Those that are settled
  /// already are left out.
  void put_back(std::vector<TaskRunPtr> runs);
  struct Unsaved {
    TaskRunPtr run;
    std::string progress;
  };
  /// Progress of tasks whose handlers still run, if its time has come. Each is passed to saved()
  /// afterwards.
  std::vector<Unsaved> take_unsaved();
  enum class Saved { yes, not_yet };
  void saved(Unsaved unsaved, Saved saved);
  void settled(std::span<const TaskRunPtr> runs);
  /// Another outcome is written in place of one that was taken and could not be written.
  void replace_outcome(TaskRun& run, TaskOutcome outcome);

  /// Notes that the lease is gone. Returns false if that makes no difference any more.
  bool lose(TaskRun& run);

  // For the thread that watches.

  struct Alarm {
    TaskRunPtr run;
    StopReason reason;  ///< lease_lost, deadline or shutdown
  };
  struct Alarms {
    std::vector<Alarm> due;
    Clock::time_point next;
  };
  /// Returns the tasks whose trust or time is over. Their lease is given up, or their outcome
  /// decided by `give_up`. Also gives back tasks that were not started for too long.
  Alarms ring(Clock::time_point now, const std::function<TaskOutcome(const TaskRun&)>& give_up);
  /// From now on no task is started; those that were not are given back.
  void close();
  /// Gives back the tasks that still run.
  std::vector<Alarm> call_off();

  struct Load {
    std::size_t running = 0;
    std::size_t queued = 0;
    std::size_t settling = 0;
  };
  Load load() const;
  /// Waits until `done(load)`, which is asked whenever something changes; or until there is an
  /// earlier alarm than `until`. Returns whether it is done. `done` must not call the board.
  bool wait(Clock::time_point until, const std::function<bool(const Load&)>& done);
  /// Lets wait() ask again.
  void poke();

 private:
  struct Lane {
    const TaskKind* kind;
    std::deque<TaskRunPtr> queued;
    std::size_t held = 0;  // leased, or in its handler
  };

  Load load_now() const LEASEHOLD_REQUIRES(mutex_) { return {running_, queued_, settling_}; }
  std::size_t idle() const LEASEHOLD_REQUIRES(mutex_);
  std::size_t bytes_left() const LEASEHOLD_REQUIRES(mutex_);
  bool results_pile_up() const LEASEHOLD_REQUIRES(mutex_);
  bool is_dangerous(const TaskRun& run) const;
  void queue(TaskRunPtr run) LEASEHOLD_REQUIRES(mutex_);
  bool may_start() const LEASEHOLD_REQUIRES(mutex_);
  TaskRunPtr take_next() LEASEHOLD_REQUIRES(mutex_);
  void give_back(const TaskRunPtr& run) LEASEHOLD_REQUIRES(mutex_);
  void give_back_queued() LEASEHOLD_REQUIRES(mutex_);
  std::size_t prefetch_now() const LEASEHOLD_REQUIRES(mutex_);
  std::size_t places() const LEASEHOLD_REQUIRES(mutex_);
  static bool at_its_limit(const Lane& lane);
  bool worth_a_lease() const LEASEHOLD_REQUIRES(mutex_);
  bool has_to_write(Clock::time_point now) const LEASEHOLD_REQUIRES(mutex_);
  Clock::time_point next_retry() const LEASEHOLD_REQUIRES(mutex_);
  bool nothing_under_way() const LEASEHOLD_REQUIRES(mutex_) { return running_ + queued_ == 0; }
  void settle(const TaskRunPtr& run, TaskOutcome outcome) LEASEHOLD_REQUIRES(mutex_);
  void unqueue(const TaskRun& run) LEASEHOLD_REQUIRES(mutex_);
  void give_up_unstarted(TaskRunPtr run) LEASEHOLD_REQUIRES(mutex_);
  void give_up_lease(TaskRun& run) LEASEHOLD_REQUIRES(mutex_);
  void forget_if_over(TaskRun& run) LEASEHOLD_REQUIRES(mutex_);
  void changed() LEASEHOLD_REQUIRES(mutex_);
  void results_changed() LEASEHOLD_REQUIRES(mutex_);
  void alarm_at(Clock::time_point when) LEASEHOLD_REQUIRES(mutex_);

  const std::size_t concurrency_;
  const std::size_t prefetch_;
  const std::size_t prefetch_bytes_;
  const int max_crashes_;

  mutable ThreadMutex mutex_;
  StoppableCondition work_;
  StoppableCondition room_;
  StoppableCondition outcomes_;
  StoppableCondition leases_;
  StoppableCondition renewed_;
  StoppableCondition watch_;
  std::deque<TaskRunPtr> first_ LEASEHOLD_GUARDED_BY(mutex_);  // queued, and leased as started
  std::vector<Lane> lanes_ LEASEHOLD_GUARDED_BY(mutex_);
  std::size_t turn_ LEASEHOLD_GUARDED_BY(mutex_) = 0;  // the lane whose turn it is
  std::unordered_map<const TaskRun*, TaskRunPtr> runs_ LEASEHOLD_GUARDED_BY(mutex_);
  // Those that had expired when their turn came, and were not reported yet.
  std::vector<TaskRunPtr> expired_ LEASEHOLD_GUARDED_BY(mutex_);
  std::vector<TaskRunPtr> unsettled_ LEASEHOLD_GUARDED_BY(mutex_);  // not taken to be written yet
  Clock::time_point unsettled_since_ LEASEHOLD_GUARDED_BY(mutex_);
  std::vector<TaskRunPtr> put_back_ LEASEHOLD_GUARDED_BY(mutex_);  // by `retry_at`
  std::vector<TaskRunPtr> unsaved_ LEASEHOLD_GUARDED_BY(mutex_);   // held, with progress to write
  std::size_t queued_ LEASEHOLD_GUARDED_BY(mutex_) = 0;
  std::size_t queued_bytes_ LEASEHOLD_GUARDED_BY(mutex_) = 0;
  std::size_t result_bytes_ LEASEHOLD_GUARDED_BY(mutex_) = 0;  // of outcomes not written yet
  std::size_t running_ LEASEHOLD_GUARDED_BY(mutex_) = 0;       // threads in a handler
  std::size_t settling_ LEASEHOLD_GUARDED_BY(mutex_) = 0;      // unsettled, or taken to be written
  double mean_run_us_ LEASEHOLD_GUARDED_BY(mutex_) = -1;       // recently; below 0: not known yet
  // A suspect was among the tasks leased last, and there may be more. They are leased as started,
  // so nothing is leased ahead.
  bool cautious_ LEASEHOLD_GUARDED_BY(mutex_) = false;
  // The dangerous task that is to begin alone, or has begun less than `longest_alone` ago.
  const TaskRun* alone_ LEASEHOLD_GUARDED_BY(mutex_) = nullptr;
  // The most tasks that were announced at once since the last look.
  std::size_t at_once_ LEASEHOLD_GUARDED_BY(mutex_) = 0;
  bool limit_left_ LEASEHOLD_GUARDED_BY(mutex_) = false;  // by some type, since the last look
  bool closed_ LEASEHOLD_GUARDED_BY(mutex_) = false;
  Clock::time_point next_alarm_ LEASEHOLD_GUARDED_BY(mutex_) = Clock::time_point::max();
  bool earlier_alarm_ LEASEHOLD_GUARDED_BY(mutex_) = false;
};

}  // namespace leasehold::inline v0
