#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>

#include "leasehold/errors.hpp"
#include "leasehold/lock.hpp"
#include "locks/deadline.hpp"
#include "support/backoff.hpp"

namespace leasehold::inline v0 {

/// The time that one call of acquire() or acquire_all() has, and what the call does while the store
/// fails or does not answer.
class Attempts {
 public:
  Attempts(const LockOptions& options, std::stop_token stop);

  /// Calls `ask()` until the store answers, and returns the answer; nothing if the caller's stop
  /// token fired. Throws the store's error once it is permanent or the time is over, and
  /// OutcomeUnknown instead if the reply to any of these attempts was lost.
  ///
  /// Calls `on_doubt()` after each attempt that may have been granted although it failed. Taking
  /// back what it was granted is up to the caller.
  template <class Ask, class OnDoubt>
  std::optional<std::invoke_result_t<Ask&>> until_answered(Ask&& ask, OnDoubt&& on_doubt) {
    bool reply_lost = false;
    bool overloaded = false;
    do {
      overloaded = false;
      if (stopped()) return std::nullopt;
      try {
        return ask();
      } catch (const OutcomeUnknown&) {
        reply_lost = true;
        on_doubt();
        if (++lost_replies_ >= most_lost_replies && is_over()) throw;
      } catch (const Unavailable& error) {
        const bool ends = is_over();
        if (ends && reply_lost) throw OutcomeUnknown(error.what());
        if (ends) throw;
      } catch (const ServerRefused& error) {
        // A script that failed halfway may have got as far as the lock.
        if (!error.transient()) on_doubt();
        const bool ends = !error.transient() || is_over();
        if (ends && reply_lost) throw OutcomeUnknown(error.what());
        if (ends) throw;
        overloaded = error.overloaded();
      }
    } while (overloaded ? pause_for_overload() : pause());
    return std::nullopt;
  }

  /// After a grant that came too late to be trusted: pauses before the next attempt. False if the
  /// stop token fired. Throws Unavailable if the time is over.
  bool pause_after_slow_answer(const std::string& where, std::chrono::milliseconds ttl);

  /// Pauses after an error, longer each time. False if the stop token fired.
  bool pause();
  /// The same after a server has said that it is overloaded, which needs more time.
  bool pause_for_overload();
  /// Sleeps for `time`, but not beyond the deadline. False if the stop token fired.
  bool sleep(std::chrono::milliseconds time);

  Deadline deadline() const noexcept { return deadline_; }
  /// Whether there was any time to wait at the start. Reads no clock.
  bool may_wait() const noexcept { return deadline_ > started_; }
  bool is_over() const { return time_left(deadline_) <= std::chrono::milliseconds{0}; }
  std::chrono::microseconds elapsed() const;

  const std::stop_token& stop() const noexcept { return stop_; }
  bool stopped() const noexcept { return stop_.stop_requested(); }

 private:
  bool pause(Backoff& backoff);

  /// A lost reply is followed by another attempt this often, even if there is no time to wait.
  static constexpr int most_lost_replies = 3;

  const std::stop_token stop_;
  const std::chrono::steady_clock::time_point started_;
  const Deadline deadline_;
  Backoff backoff_;
  Backoff overload_backoff_;
  int lost_replies_ = 0;
};

}  // namespace leasehold::inline v0
