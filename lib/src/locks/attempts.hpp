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
#include "support/sleep.hpp"

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
  /// back what it was granted is up to the caller. Between attempts it calls `rest(time)`, which
  /// may return sooner if there is a reason to ask again.
  template <class Ask, class OnDoubt, class Rest>
  std::optional<std::invoke_result_t<Ask&>> until_answered(Ask&& ask, OnDoubt&& on_doubt,
                                                           Rest&& rest) {
    bool reply_lost = false;
    while (!stopped()) {
      Backoff* backoff = &backoff_;
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
        // It may have got as far as the lock, or it has the lock, but too few replicas know.
        if (error.halfway()) on_doubt();
        const bool ends = !error.transient() || is_over();
        if (ends && reply_lost) throw OutcomeUnknown(error.what());
        if (ends) throw;
        // A server that is overloaded is given more time.
        if (error.overloaded()) backoff = &overload_backoff_;
      }
      rest(next_pause(*backoff));
    }
    return std::nullopt;
  }

  /// The same; it sleeps between attempts.
  template <class Ask, class OnDoubt>
  std::optional<std::invoke_result_t<Ask&>> until_answered(Ask&& ask, OnDoubt&& on_doubt) {
    return until_answered(ask, on_doubt,
                          [this](std::chrono::milliseconds time) { sleep_for(time, stop_); });
  }

  /// After a grant that came too late to be trusted: pauses before the next attempt. False if the
  /// stop token fired. Throws Unavailable if the time is over.
  bool pause_after_slow_answer(const std::string& where, std::chrono::milliseconds ttl);

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
  std::chrono::milliseconds next_pause(Backoff& backoff) const;

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
