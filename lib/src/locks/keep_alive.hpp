#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "locks/announcer.hpp"
#include "locks/lease.hpp"

namespace spdlog {
class logger;
}

namespace leasehold::inline v0 {

class Janitor;
class LockTelemetry;

/// Keeps all leases of a client alive, and says so when it cannot.
///
/// Two threads: the *timer* knows when a heartbeat is due and when trust ends, and never talks to
/// a server, so that a loss is announced in time whatever the server does. The *renewer* sends all
/// heartbeats that are due in one batch. Callbacks of users run on neither (see Announcer).
class KeepAlive {
 public:
  using TimePoint = Lease::TimePoint;

  KeepAlive(LockStore& store, Janitor& janitor, LockTelemetry& telemetry,
            std::shared_ptr<spdlog::logger> logger, std::chrono::milliseconds longest_renewal);
  ~KeepAlive();

  /// From the grant on.
  void watch(const std::shared_ptr<Lease>& lease);

  /// Before the release.
  void forget(const std::shared_ptr<Lease>& lease);

  /// Applies what the store answered to a renewal that was sent at `sent`: trust lasts longer, or
  /// the loss is announced, or nothing is known. Heartbeats, extend() and downgrade() all end here.
  Ownership apply(const std::shared_ptr<Lease>& lease, const LockRenewal& renewal, TimePoint sent);

  /// The same for a heartbeat, sent by us or by hand, which is counted. `what` names it in the log.
  Ownership apply_heartbeat(const std::shared_ptr<Lease>& lease, const LockRenewal& renewal,
                            TimePoint sent, std::string_view what);

  /// The store says that the lease is not ours any more, or trust has ended.
  void lose(const std::shared_ptr<Lease>& lease, LossReason reason);

  /// Word from the store that the lease with this owner was taken away. It may be faster than the
  /// reply that brings the lease: then it is lost as soon as it is watched.
  void lose(std::string_view owner, LossReason reason);

  /// Word of losses may have been missed: looks whether what we hold is still ours.
  void verify_all();

  /// How many leases are being renewed.
  std::size_t active() const;

 private:
  using Batch = std::vector<std::shared_ptr<Lease>>;

  void run_timer(const std::stop_token& stop);
  void run_renewer(const std::stop_token& stop);
  void renew(const Batch& batch);
  void verify(const Batch& batch);
  Batch all_leases() const;

  void reschedule(const std::shared_ptr<Lease>& lease);
  void schedule(const std::shared_ptr<Lease>& lease);
  void schedule_retry(const std::shared_ptr<Lease>& lease, TimePoint when);
  void unschedule(Lease& lease);
  void take_due(TimePoint now);
  Batch take_hopeless(TimePoint now);
  void wake_timer_for(TimePoint when);

  LockStore& store_;
  Janitor& janitor_;
  LockTelemetry& telemetry_;
  const std::shared_ptr<spdlog::logger> logger_;
  const std::chrono::milliseconds longest_renewal_;
  Announcer tokens_;     // fires stop tokens
  Announcer callbacks_;  // may be blocked by its users without delaying the stop token of any lock

  mutable std::mutex mutex_;
  // All of these are protected by mutex_.
  Lease::Agenda renewals_;  // automatic leases, by when their heartbeat is due
  Lease::Agenda give_ups_;  // leases whose heartbeat is overdue or manual, by when trust ends
  Batch due_;               // handed from the timer to the renewer
  bool verify_ = false;     // the renewer shall look at all leases
  TimePoint deaf_until_ = TimePoint::min();  // word of losses may have been missed before
  std::deque<std::pair<std::string, LossReason>> early_losses_;  // by owner
  std::size_t automatic_ = 0;
  TimePoint timer_wakes_at_ = TimePoint::max();

  std::condition_variable_any timer_changed_;
  std::condition_variable_any due_changed_;
  std::jthread timer_;
  std::jthread renewer_;
};

}  // namespace leasehold::inline v0
