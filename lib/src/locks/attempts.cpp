#include "locks/attempts.hpp"

#include <algorithm>
#include <utility>

#include "support/sleep.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Attempts::TimePoint deadline_of(const LockOptions& options, Attempts::TimePoint started) {
  if (options.on_conflict == OnConflict::fail_fast) return started;
  return options.wait == LockOptions::forever ? Attempts::TimePoint::max() : started + options.wait;
}

}  // namespace

Attempts::Attempts(const LockOptions& options, std::stop_token stop)
    : stop_(std::move(stop)),
      started_(steady_clock::now()),
      deadline_(deadline_of(options, started_)),
      backoff_(milliseconds{10}, milliseconds{500}) {}

bool Attempts::pause_after_slow_answer(const std::string& where, milliseconds ttl) {
  if (stopped()) return false;
  if (is_over()) {
    throw Unavailable(where + ": answers more slowly than a ttl of " + std::to_string(ttl.count()) +
                      " ms allows");
  }
  return pause();
}

bool Attempts::pause() {
  // A millisecond more, so that the time is certainly over after the last pause.
  return sleep_for(std::min(backoff_.next(), time_left() + milliseconds{1}), stop_);
}

bool Attempts::sleep(milliseconds time) { return sleep_for(std::min(time, time_left()), stop_); }

milliseconds Attempts::time_left() const {
  if (deadline_ == TimePoint::max()) return milliseconds::max() / 2;
  return std::chrono::ceil<milliseconds>(deadline_ - steady_clock::now());
}

std::chrono::microseconds Attempts::elapsed() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - started_);
}

}  // namespace leasehold::inline v0
