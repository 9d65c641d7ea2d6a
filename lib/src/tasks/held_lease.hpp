#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include "leasehold/errors.hpp"
#include "support/boot_clock.hpp"
#include "support/trust_margin.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0 {

/// How far the holder of a lease has come with it.
enum class LeaseStage {
  queued,       ///< a worker has leased the task and not started it yet
  held,         ///< the task is being worked on
  handed_over,  ///< completed in a transaction of the holder, which may not be committed yet
  settling,     ///< a worker is going to write the outcome
  ended,        ///< ended by its holder, or lost
};

/// A lease as its holder knows it: what a TaskLease and a task in a worker have in common.
///
/// Only `valid_until` and `started` may be read while another thread writes them.
struct HeldLease {
  using Clock = BootClock;

  HeldLease(LeasedTask leased, LeaseStage first_stage, Clock::time_point trusted_until)
      : task(std::move(leased)),
        stage(first_stage),
        valid_until(trusted_until),
        started(task.started) {}

  LeasedTask task;
  LeaseStage stage;

  /// The lease is certainly ours until then. In the past once the lease has ended.
  std::atomic<Clock::time_point> valid_until;

  /// Its handler has been called, or will be at once. The next renewal tells the store.
  std::atomic<bool> started;

  /// The reply to a write that ends the lease was lost: it may have been executed.
  bool in_doubt = false;
  /// That write was a release.
  bool release_in_doubt = false;

  /// The task was handed over to a transaction of its handler, which may have been committed.
  bool perhaps_completed = false;
};

/// Until when a lease that was requested at `sent` is certainly ours.
inline HeldLease::Clock::time_point trusted_until(HeldLease::Clock::time_point sent,
                                                  std::chrono::milliseconds duration) {
  return sent + duration - trust_margin(duration);
}

/// Throws InvalidArgument if the lease has ended.
void check_not_ended(const HeldLease& lease, const char* what);

/// Throws InvalidArgument after complete_in(): a write would wait for the caller's transaction.
void check_not_handed_over(LeaseStage stage, const LeaseKey& key, const char* what);

/// What complete_in() throws if the lease is gone.
LeaseLost lease_lost(const LeaseKey& key, const std::string& worker);

}  // namespace leasehold::inline v0
