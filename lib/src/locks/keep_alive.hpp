#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "locks/announcer.hpp"
#include "locks/grant.hpp"
#include "support/log_line.hpp"
#include "support/thread_safety.hpp"

namespace spdlog {
class logger;
}

namespace leasehold::inline v0 {

class Janitor;
class LockTelemetry;

/// Keeps all grants of a client alive, and announces those that are lost.
///
/// It has two threads. The *timer* knows when a heartbeat is due and when trust ends; it never
/// talks to the store, so that a loss is announced in time whatever the store does. The *renewer*
/// sends all heartbeats that are due in one batch. If the locks are on several servers, each of
/// them has a renewer, so that a server that does not answer delays no other. Callbacks of users
/// run on none of these threads (see Announcer).
class KeepAlive {
 public:
  using TimePoint = Grant::TimePoint;

  KeepAlive(LockStore& store, Janitor& janitor, LockTelemetry& telemetry,
            std::shared_ptr<spdlog::logger> logger, std::chrono::milliseconds longest_renewal);
  ~KeepAlive();

  /// Called before a lock is asked for: whoever gets it can be told of its loss. `callbacks` says
  /// whether the holder has an on_lost. Throws Unavailable if the system has no thread left.
  void prepare(bool callbacks);

  /// Called as soon as the grant is made.
  void watch(const std::shared_ptr<Grant>& grant);

  /// Called before the release.
  void forget(const std::shared_ptr<Grant>& grant);

  /// Applies what the store answered to a renewal that was sent at `sent`: trust lasts longer, or
  /// the loss is announced, or nothing is known. Heartbeats, extend() and downgrade() all end here.
  Ownership apply_renewal(const std::shared_ptr<Grant>& grant, const LockRenewal& renewal,
                          TimePoint sent);

  /// The same for a heartbeat, sent by us or by hand, which is counted. `failure` is logged if its
  /// result is not known.
  Ownership apply_heartbeat(const std::shared_ptr<Grant>& grant, const LockRenewal& renewal,
                            TimePoint sent, EventName failure);

  /// Sends renewals to the store. Never throws: each has a result, or says why it failed.
  void send(std::span<LockRenewal> renewals, std::chrono::milliseconds timeout);

  /// Ends the grant and announces its loss, unless it has ended already.
  void lose(const std::shared_ptr<Grant>& grant, LossReason reason);

  /// The same for the grant of this owner, after a message from the store. The message may arrive
  /// before the reply that brings the grant, which is then lost as soon as it is watched.
  void lose(std::string_view owner, LossReason reason);

  /// Asks the store whether our grants still stand, because messages may have been missed.
  void verify_all();

  /// The number of grants that are renewed automatically.
  std::size_t active() const;

 private:
  using Batch = std::vector<std::shared_ptr<Grant>>;

  struct Renewer {
    Batch due;             // handed over by the timer
    bool working = false;  // its thread runs
    StoppableCondition changed;
    std::jthread thread;
  };

  void run_timer(const std::stop_token& stop);
  void run_renewer(const std::stop_token& stop);
  void run_renewer_of_one_server(const std::stop_token& stop, Renewer& renewer);
  Renewer& renewer_of(const Grant& grant) LEASEHOLD_REQUIRES(mutex_);
  void renew(const Batch& batch);
  void verify(const Batch& batch);
  /// After a loss: releases what a renewal that was not answered may have prolonged.
  void release_remains(const Grant& grant);
  Batch all_grants() const LEASEHOLD_REQUIRES(mutex_);

  void reschedule(const std::shared_ptr<Grant>& grant);
  void schedule(const std::shared_ptr<Grant>& grant) LEASEHOLD_REQUIRES(mutex_);
  void schedule_renewal(const std::shared_ptr<Grant>& grant, TimePoint when)
      LEASEHOLD_REQUIRES(mutex_);
  void unschedule(Grant& grant) LEASEHOLD_REQUIRES(mutex_);
  void take_due(TimePoint now) LEASEHOLD_REQUIRES(mutex_);
  Batch take_hopeless(TimePoint now) LEASEHOLD_REQUIRES(mutex_);
  TimePoint next_entry() const LEASEHOLD_REQUIRES(mutex_);
  void wake_timer_for(TimePoint when) LEASEHOLD_REQUIRES(mutex_);

  LockStore& store_;
  Janitor& janitor_;
  LockTelemetry& telemetry_;
  const std::shared_ptr<spdlog::logger> logger_;
  const std::chrono::milliseconds longest_renewal_;
  std::atomic<bool> prepared_{false};
  Announcer tokens_;     // fires stop tokens
  Announcer callbacks_;  // separate: a callback that blocks must not delay any stop token

  mutable ThreadMutex mutex_;
  StoppableCondition timer_changed_;
  /// Automatic grants, by when their heartbeat is due.
  Grant::Agenda renewals_ LEASEHOLD_GUARDED_BY(mutex_);
  /// Grants whose heartbeat is overdue or manual, by when trust ends.
  Grant::Agenda give_ups_ LEASEHOLD_GUARDED_BY(mutex_);
  /// By LockStore::server_of(). The one without a name is always there, and serves the others if
  /// their threads cannot be started.
  std::map<std::string, Renewer> renewers_ LEASEHOLD_GUARDED_BY(mutex_);
  Renewer& main_renewer_;
  /// The main renewer has to verify all grants.
  bool verify_ LEASEHOLD_GUARDED_BY(mutex_) = false;
  /// Messages may have been missed up to this time.
  TimePoint deaf_until_ LEASEHOLD_GUARDED_BY(mutex_) = TimePoint::min();
  /// Losses of grants that are not watched yet, by owner.
  std::deque<std::pair<std::string, LossReason>> early_losses_ LEASEHOLD_GUARDED_BY(mutex_);
  std::size_t automatic_ LEASEHOLD_GUARDED_BY(mutex_) = 0;
  TimePoint timer_wakes_at_ LEASEHOLD_GUARDED_BY(mutex_) = TimePoint::max();

  std::jthread timer_;
};

}  // namespace leasehold::inline v0
