#pragma once

#include <chrono>
#include <stop_token>

#include "support/thread_safety.hpp"

namespace leasehold::inline v0 {

/// Sleeps until `time`, or until the stop token fires. Returns false if it has fired.
inline bool sleep_until(std::chrono::steady_clock::time_point time, const std::stop_token& stop) {
  ThreadMutex mutex;
  StoppableCondition stopped;  // nobody notifies it: only the token ends the wait
  ThreadLock lock(mutex);
  stopped.wait_until(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

/// The same for a while.
inline bool sleep_for(std::chrono::milliseconds pause, const std::stop_token& stop) {
  return sleep_until(std::chrono::steady_clock::now() + pause, stop);
}

}  // namespace leasehold::inline v0
