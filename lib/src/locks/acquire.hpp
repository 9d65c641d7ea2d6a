#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "locks/lock_core.hpp"
#include "support/backoff.hpp"

namespace leasehold::inline v0 {

/// What is wanted of a lock: to have it alone, or beside others.
struct LockWish {
  LockKind kind = LockKind::exclusive;
  int permits = 0;  ///< for shared: how many may hold it at once; 0 for any number
};

// What options come to.
std::chrono::milliseconds heartbeat_interval(const LockOptions& options);
/// A holder that max_hold allows no second heartbeat is not silent before its lease has ended.
std::chrono::milliseconds promised_interval(const LockOptions& options);
Lease::TimePoint acquire_deadline(Lease::TimePoint started, const LockOptions& options);

/// A lost reply is looked into this often even by a caller that has no time to wait.
inline constexpr int most_lost_replies = 3;

/// One call of LockClient::acquire(), from its first attempt to its end. Whatever that end is,
/// nothing is left in the store that nobody holds.
class AcquireCall {
 public:
  /// The options are valid.
  AcquireCall(std::shared_ptr<LockCore> core, std::string_view name, const LockOptions& options,
              std::stop_token stop, LockWish wish = {});
  ~AcquireCall();

  Acquisition run();

 private:
  using TimePoint = Lease::TimePoint;

  std::optional<Lock> reenter();
  bool stands_in_line() const;
  void sit_down();
  bool wait_in_line();
  std::chrono::milliseconds silent_in() const;
  std::optional<ClaimOutcome> attempt();
  ClaimOutcome ask();
  LockClaim make_claim() const;
  std::optional<Lock> accept(const LockGrant& grant);
  bool may_claim_anew();
  void report(const LockGrant& grant);
  void note_conflict(const LockConflict& conflict);
  bool may_try_again_after_error() const;
  bool sleep(std::chrono::milliseconds pause);
  std::chrono::milliseconds time_left() const;
  Acquisition refuse(RefusalReason reason);
  void withdraw() noexcept;
  std::chrono::microseconds elapsed() const;

  const std::shared_ptr<LockCore> core_;
  const std::string name_;
  const LockOptions& options_;
  const std::stop_token stop_;
  const LockWish wish_;
  const std::string metadata_;
  const std::chrono::milliseconds ttl_;
  const std::chrono::milliseconds heartbeat_every_;
  const TimePoint started_;
  const TimePoint deadline_;

  std::string owner_;  // new for each grant
  Backoff conflict_backoff_;
  Backoff error_backoff_;
  int retries_ = 0;
  int lost_replies_ = 0;
  TimePoint sent_{};                           // of the attempt that was answered last
  std::optional<TimePoint> unanswered_since_;  // the first without an answer
  bool waiting_ = false;                       // counted as such
  std::optional<LockRecord> holder_;           // as of the last attempt
  std::optional<WaitingRoom::Seat> seat_;      // while it stands in line
  std::uint64_t place_ = 0;                    // in the line
  TimePoint queued_at_{};
};

}  // namespace leasehold::inline v0
