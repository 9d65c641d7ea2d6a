#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "locks/attempts.hpp"
#include "locks/lock_core.hpp"
#include "support/backoff.hpp"

namespace leasehold::inline v0 {

/// How a lock is wanted: exclusively, or shared with others.
struct LockWish {
  LockKind kind = LockKind::exclusive;
  int permits = 0;  ///< for shared: how many may hold it at once; 0 for any number
};

/// The time between two heartbeats; 0 if the caller renews by hand.
std::chrono::milliseconds heartbeat_interval(const LockOptions& options);

/// What others are told of it. A holder to which max_hold allows no second heartbeat must not count
/// as silent before its grant has ended.
std::chrono::milliseconds promised_interval(const LockOptions& options);

/// One call of LockClient::acquire(), from its first attempt to its end. However it ends, it leaves
/// nothing in the store that nobody holds.
class AcquireCall {
 public:
  /// The options must be valid.
  AcquireCall(std::shared_ptr<LockCore> core, std::string_view name, const LockOptions& options,
              std::stop_token stop, LockWish wish = {});
  ~AcquireCall();

  Acquisition run();

 private:
  using TimePoint = Grant::TimePoint;

  std::optional<Lock> reenter();
  AcquireRequest make_request();
  std::optional<Lock> accept(const Granted& granted);
  void report(const Granted& granted);
  void note_conflict(const Conflict& conflict);
  bool waits_in_line() const;
  void sit_down();
  bool wait_in_line();
  bool is_out_of_retries() const;
  bool wait_for_retry();
  void rest(std::chrono::milliseconds time);
  std::chrono::milliseconds silent_in() const;
  Acquisition refuse(RefusalReason reason);
  void withdraw() noexcept;

  const std::shared_ptr<LockCore> core_;
  const std::string name_;
  const LockOptions& options_;
  const LockWish wish_;
  const std::string metadata_;
  const std::chrono::milliseconds ttl_;

  Attempts attempts_;
  Backoff conflict_backoff_;
  int retries_ = 0;                            // after a conflict
  std::string owner_;                          // new for each grant
  TimePoint sent_{};                           // when the present attempt left
  std::optional<TimePoint> unanswered_since_;  // when the first attempt left that was not answered
  bool counted_as_waiting_ = false;
  std::optional<LockRecord> holder_;       // as of the last attempt
  std::optional<WaitingRoom::Seat> seat_;  // while it stands in line
  std::uint64_t place_ = 0;                // in the line
  std::chrono::steady_clock::time_point queued_at_{};
  std::chrono::steady_clock::time_point asked_at_{};
  bool alone_ = false;  // no other client waits in the line, as of then
};

}  // namespace leasehold::inline v0
