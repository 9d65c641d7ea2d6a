#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <stop_token>
#include <unordered_map>
#include <vector>

#include "tasks/accepted.hpp"
#include "tasks/runtime/task_run.hpp"

namespace leasehold::inline v0 {

/// Which tasks a worker has and how far they are. The threads of the worker meet here and nowhere
/// else. Knows no store. Thread-safe; nothing here waits for a server, but for hand_over().
///
/// A task that kills its process takes the other leases of that process with it, and they count a
/// crash each: leased and run together again and again, they would all end as dead. So a task whose
/// lease has expired before (a suspect) is leased with no more others than there are threads, and
/// one whose leases expired twice (a dangerous one) alone.
class Board {
 public:
  using Clock = TaskRun::Clock;

  Board(std::span<const TaskKind> kinds, std::size_t concurrency, std::size_t prefetch);

  // For who leases.

  struct Limited {
    std::size_t lane;
    std::size_t room;
  };
  struct Room {
    std::size_t places = 0;         ///< for tasks in all
    std::vector<std::size_t> open;  ///< lanes without a limit of their own
    std::vector<Limited> limited;   ///< lanes below their limit
  };
  /// Waits until there is enough room to be worth a lease. False once stopped.
  bool wait_for_room(const std::stop_token& stop);
  Room room() const;
  /// Waits for the pause to be over, or until there may be more to lease, but for `least` in any
  /// case. True if there may be more.
  bool rest(const std::stop_token& stop, std::chrono::milliseconds least,
            std::chrono::milliseconds pause);
  /// There may be more to lease.
  void wake();
  /// After close() they are given back.
  void add(std::vector<TaskRunPtr> runs);

  // For handler threads and what they call.

  /// The next task to start, each type in its turn; waits for one. Null once stopped.
  TaskRunPtr next(const std::stop_token& stop);
  enum class Return {
    settling,   ///< the outcome will be written
    completed,  ///< in a transaction of the handler
    refused,    ///< the lease was lost: the outcome changes nothing
    too_late,   ///< another outcome had been decided: the deadline's or the stop's
  };
  Return returned(const TaskRunPtr& run, TaskOutcome outcome);
  TaskRun::Stage stage(const TaskRun& run) const;
  /// The handler is about to complete it: from now on nobody else touches its row, which the
  /// handler's transaction locks. Waits for a renewal that is under way. False if the lease is
  /// gone.
  bool hand_over(TaskRun& run);

  // For who renews.

  /// Waits while there is nothing to renew.
  void wait_for_leases(const std::stop_token& stop);
  /// In order of id.
  std::vector<TaskRunPtr> begin_renewal(Clock::time_point granted_before);
  /// `accepted`: those of `runs` that were renewed; null if nothing is known. Returns those that
  /// lost their lease.
  std::vector<TaskRunPtr> end_renewal(std::span<const TaskRunPtr> runs, const Accepted* accepted,
                                      Clock::time_point valid_until);

  // For who settles.

  /// The end of trust.
  Clock::time_point valid_until(const TaskRun& run) const;

  /// Waits for outcomes: as soon as nothing else is under way, or there are many, or for a few
  /// milliseconds. Empty once stopped.
  std::vector<TaskRunPtr> take_outcomes(const std::stop_token& stop);
  void put_back(std::vector<TaskRunPtr> runs);
  void settled(std::span<const TaskRunPtr> runs);

  /// The lease is gone. False if that makes no difference any more.
  bool lose(TaskRun& run);

  // For who watches.

  struct Alarm {
    TaskRunPtr run;
    StopReason reason;  ///< lease_lost, deadline or shutdown
  };
  struct Alarms {
    std::vector<Alarm> due;
    Clock::time_point next;
  };
  /// Whose trust or time is over: their lease is given up or their outcome decided. Gives back what
  /// was not started for too long. `give_up`: how a task fails whose deadline has passed.
  Alarms ring(Clock::time_point now, const std::function<TaskOutcome(const TaskRun&)>& give_up);
  /// Nothing is started any more; what was not started is given back.
  void close();
  /// Gives back what still runs.
  std::vector<Alarm> call_off();
  /// Waits until `done`, which is asked whenever something changes; or until there is an earlier
  /// alarm than `until`. True if it is done.
  bool wait(Clock::time_point until, const std::function<bool()>& done);
  void poke();

  struct Load {
    std::size_t running = 0;
    std::size_t queued = 0;
    std::size_t settling = 0;
  };
  Load load() const;
  /// For a `done` of wait(), which has the mutex.
  Load load_now() const { return {running_, queued_, settling_}; }

 private:
  struct Lane {
    const TaskKind* kind;
    std::deque<TaskRunPtr> queued;
    std::size_t held = 0;  // leased, or in its handler
  };

  // All of these with the mutex held.

  enum class Caution { none, no_prefetch, one_by_one };
  Caution caution_about(std::span<const TaskRunPtr> runs) const;
  bool may_start_danger() const;
  void give_back_queued();
  std::size_t prefetch_now() const;
  std::size_t places() const;
  bool at_its_limit(const Lane& lane) const;
  bool worth_a_lease() const;
  bool nothing_under_way() const { return running_ + queued_ == 0; }
  void settle(const TaskRunPtr& run, TaskOutcome outcome);
  void unqueue(const TaskRun& run);
  void give_up_lease(TaskRun& run);
  void forget_if_over(TaskRun& run);
  void changed();
  void alarm_at(Clock::time_point when);

  const std::size_t concurrency_;
  const std::size_t prefetch_;

  mutable std::mutex mutex_;
  std::condition_variable_any work_;
  std::condition_variable_any room_;
  std::condition_variable_any outcomes_;
  std::condition_variable_any leases_;
  std::condition_variable_any renewed_;
  std::condition_variable_any watch_;
  // guarded by mutex_
  std::vector<Lane> lanes_;
  std::size_t turn_ = 0;  // the lane whose turn it is
  std::unordered_map<const TaskRun*, TaskRunPtr> runs_;
  std::vector<TaskRunPtr> expired_;    // found when their turn came, and not yet reported
  std::vector<TaskRunPtr> unsettled_;  // not taken by who settles
  Clock::time_point unsettled_since_;
  std::size_t queued_ = 0;
  std::size_t running_ = 0;          // threads in a handler
  std::size_t settling_ = 0;         // those in unsettled_, and those that were taken
  double mean_run_us_ = -1;          // lately; below 0: not known yet
  Caution caution_ = Caution::none;  // as the last tasks that were leased demand
  std::size_t dangerous_ = 0;        // those that are held
  bool woken_ = false;               // since the last rest
  bool closed_ = false;
  Clock::time_point next_alarm_ = Clock::time_point::max();
  bool earlier_alarm_ = false;
};

}  // namespace leasehold::inline v0
