#pragma once

#include <chrono>
#include <csignal>

namespace leasehold::common {

/// Blocks SIGTERM, SIGINT and SIGHUP, so that the main thread can wait for them. Make one before
/// any thread is started: threads inherit what is blocked.
class Signals {
 public:
  Signals();

  /// Waits for the next signal and returns it.
  int wait() const;
  /// Returns 0 if none came in time.
  int wait(std::chrono::milliseconds timeout) const;

 private:
  sigset_t set_{};
};

}  // namespace leasehold::common
