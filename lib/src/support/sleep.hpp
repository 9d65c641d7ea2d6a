#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace leasehold::inline v0 {

/// Sleeps until then. False, and at once, if the stop token fired.
inline bool sleep_until(std::chrono::steady_clock::time_point time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any nobody;
  std::unique_lock lock(mutex);
  nobody.wait_until(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

/// The same for a while.
inline bool sleep_for(std::chrono::milliseconds pause, const std::stop_token& stop) {
  return sleep_until(std::chrono::steady_clock::now() + pause, stop);
}

}  // namespace leasehold::inline v0
