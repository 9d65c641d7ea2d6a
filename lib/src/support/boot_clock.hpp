#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>

namespace leasehold::inline v0 {

/// The time since the machine was started. Unlike std::chrono::steady_clock it goes on while the
/// machine is suspended, as the store's clock does: whatever ends by the store's clock is trusted
/// by this one.
struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept {
    timespec time{};
    clock_gettime(CLOCK_BOOTTIME, &time);
    return time_point{std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec}};
  }
};

/// The same moment by the steady clock, provided that the machine is not suspended before.
inline std::chrono::steady_clock::time_point to_steady(BootClock::time_point when) noexcept {
  return std::chrono::steady_clock::now() + (when - BootClock::now());
}

/// Until when a thread may sleep that has something to do at `when`. Timers stand still while the
/// machine is suspended, so a long sleep is cut into pieces.
inline std::chrono::steady_clock::time_point sleep_until(BootClock::time_point when) noexcept {
  constexpr std::chrono::seconds longest{1};
  const auto now = BootClock::now();
  return std::chrono::steady_clock::now() + std::min<BootClock::duration>(when - now, longest);
}

}  // namespace leasehold::inline v0
