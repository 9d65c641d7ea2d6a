#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "support/random.hpp"

namespace leasehold::inline v0 {

/// Decides when a worker that has room looks for tasks: after a pause, or when tasks were
/// announced.
///
/// Every announcement reaches every worker. If all of them looked at once, a thousand workers would
/// make a thousand queries for a task that one of them gets. So each waits a random part of its
/// `pace` before it looks. A look for nothing doubles the pace, and one that finds something halves
/// it. Announcements that arrive during the wait are answered by the same look. The fleet settles
/// at about two looks per task, whatever its size, or at one look per `share` of time if there are
/// few tasks. The pace of a worker that finds what was announced falls to zero, so it looks at
/// once. A worker whose looks have become rare need not hear of every single task.
///
/// Not thread-safe.
class LookPace {
 public:
  using Clock = std::chrono::steady_clock;
  using milliseconds = std::chrono::milliseconds;
  using microseconds = std::chrono::microseconds;

  LookPace(milliseconds poll_min, milliseconds poll_max)
      : poll_min_(poll_min), poll_max_(poll_max) {}

  /// `fleet`: how many processes share the queue. `listening`: whether announcements arrive.
  void adapt(std::size_t fleet, bool listening) {
    fleet_ = std::max<std::size_t>(fleet, 1);
    listening_ = listening;
    pace_ = std::min(pace_, share_of_all());  // what was learned in a larger fleet
  }

  /// Tasks were announced. Returns the longest time to wait before looking for them.
  microseconds heard(Clock::time_point now) {
    // What was learned in busier times says nothing about now.
    if (now - last_news_ > 2 * share_of_all()) pace_ = std::min(pace_, quiet * others());
    last_news_ = now;
    return std::chrono::duration_cast<microseconds>(pace_);
  }

  enum class Reason { pause, news };
  enum class Found { nothing, something };
  void looked(Reason reason, Found found, Clock::time_point now) {
    const bool something = found == Found::something;
    if (reason == Reason::news) {
      last_news_ = now;
      pace_ = something ? pace_ / 2 : std::clamp(pace_ * 2, least, share_of_all());
      if (pace_ < least) pace_ = Time{0};
    }
    if (!something) {
      pause_ = std::min(pause_ * 2, longest_pause());
    } else if (crowded()) {
      pause_ /= 2;
    } else {
      pause_ = poll_min_ / 2;  // the next look for nothing makes it poll_min
    }
    pause_ = std::max(pause_, poll_min_ / 2);
  }

  /// For how long, after an announcement, the worker need not hear of others; 0 if it should. Each
  /// announcement costs the server a wake-up of every process that listens, and a worker that looks
  /// only once in a while will hardly look sooner because of it. A short time, so that after it the
  /// worker hears of a burst.
  milliseconds time_to_rest() const {
    if (pace_ <= rare) return milliseconds{0};
    return std::chrono::duration_cast<milliseconds>(longest_rest * (1.0 - random_share() / 2));
  }

  /// How long to wait for announcements before looking anyway. Shortened by a random share of up to
  /// one half.
  milliseconds pause() const {
    const Time full = std::clamp(pause_, poll_min_, std::max(poll_min_, longest_pause()));
    return std::chrono::duration_cast<milliseconds>(full * (1.0 - random_share() / 2));
  }

 private:
  using Time = std::chrono::duration<double, std::milli>;
  static constexpr Time share{40};  // a look every 40 ms is what an idle fleet may cost
  static constexpr Time quiet{1};   // how far apart looks are if nothing was announced lately
  static constexpr Time least{1};
  static constexpr Time rare{1'000};
  static constexpr Time longest_rest{5'000};

  double others() const { return static_cast<double>(fleet_ - 1); }
  Time share_of_all() const { return share * static_cast<double>(fleet_); }
  /// Whether looking every poll_max would cost more than an idle fleet may.
  bool crowded() const { return listening_ && share_of_all() > poll_max_; }
  Time longest_pause() const { return crowded() ? share_of_all() : poll_max_; }

  const Time poll_min_;
  const Time poll_max_;
  std::size_t fleet_ = 1;
  bool listening_ = false;
  Time pause_{0};
  Time pace_{0};
  Clock::time_point last_news_{};
};

}  // namespace leasehold::inline v0
