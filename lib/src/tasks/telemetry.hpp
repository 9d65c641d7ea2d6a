#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "leasehold/task_queue.hpp"
#include "leasehold/task_stats.hpp"
#include "support/live_histogram.hpp"

namespace leasehold::inline v0 {

/// Counts what one queue does. Thread-safe.
class TaskTelemetry {
 public:
  class Counter {
   public:
    void add(std::size_t number = 1) noexcept {
      value_.fetch_add(number, std::memory_order_relaxed);
    }
    std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

   private:
    std::atomic<std::uint64_t> value_{0};
  };

  void count_enqueued(std::span<const Enqueued> answers) noexcept {
    for (const Enqueued& answer : answers) {
      (answer.outcome == Enqueued::Outcome::added ? enqueued : already_there).add();
    }
  }

  /// `retries`: as counted by the store.
  TaskStats snapshot(std::uint64_t retries) const noexcept;

  // These are named as in TaskStats.
  Counter enqueued;
  Counter already_there;
  Counter leased;
  Counter empty_leases;
  Counter extended;
  Counter completed;
  Counter failed;
  Counter dead;
  Counter released;
  Counter recovered;
  Counter stale_writes;
  Counter version_conflicts;
  Counter outcomes_unknown;
  LiveHistogram lease_time;
};

}  // namespace leasehold::inline v0
