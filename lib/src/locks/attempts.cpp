#include "locks/attempts.hpp"

#include <algorithm>
#include <utility>

namespace leasehold::inline v0 {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Attempts::Attempts(const LockOptions& options, std::stop_token stop)
    : stop_(std::move(stop)),
      started_(steady_clock::now()),
      deadline_(options.on_conflict == OnConflict::fail_fast
                    ? started_
                    : deadline_after(options.wait, started_)),
      backoff_(milliseconds{10}, milliseconds{500}),
      overload_backoff_(milliseconds{1'000}, milliseconds{60'000}) {}

bool Attempts::pause_after_slow_answer(const std::string& where, milliseconds ttl) {
  if (stopped()) return false;
  if (is_over()) {
    throw Unavailable(where + ": answers more slowly than a ttl of " + std::to_string(ttl.count()) +
                      " ms allows");
  }
  return sleep_for(next_pause(backoff_), stop_);
}

milliseconds Attempts::next_pause(Backoff& backoff) const {
  // A millisecond more, so that the time is certainly over after the last pause.
  return std::min(backoff.next(), time_left(deadline_) + milliseconds{1});
}

bool Attempts::sleep(milliseconds time) {
  return sleep_for(std::min(time, time_left(deadline_)), stop_);
}

std::chrono::microseconds Attempts::elapsed() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - started_);
}

}  // namespace leasehold::inline v0
