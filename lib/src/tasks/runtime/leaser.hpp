#pragma once

#include <atomic>
#include <span>
#include <stop_token>

#include "support/backoff.hpp"
#include "tasks/runtime/worker_context.hpp"

namespace leasehold::inline v0 {

/// Leases tasks when there is room for them.
class Leaser {
 public:
  Leaser(const WorkerContext& context, std::span<const TaskKind> kinds);

  void run(const std::stop_token& stop);

  /// Whether new tasks are announced. May be called from any thread.
  void set_listening(bool listening) noexcept { listening_ = listening; }

  /// How long this worker, after an announcement, need not hear of others; 0 if it should.
  std::chrono::milliseconds time_to_rest() const noexcept { return time_to_rest_; }

  enum class Found { nothing, some, all_it_asked_for };
  /// Looks for tasks once: one statement for the types without a limit, and one for those with a
  /// limit. The two groups take turns in going first.
  Found lease_once();

 private:
  Found lease(const std::vector<std::size_t>& lanes, std::size_t limit,
              const TaskBoard::Room& room);

  const WorkerContext& context_;
  const std::span<const TaskKind> kinds_;
  std::atomic<bool> listening_{false};
  std::atomic<std::chrono::milliseconds> time_to_rest_{};
  LookPace pace_;
  Backoff trouble_;
  bool limited_first_ = false;
};

}  // namespace leasehold::inline v0
