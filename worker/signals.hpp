#pragma once

#include <chrono>
#include <csignal>

namespace leasehold::worker {

/// The signals that we wait for instead of being interrupted. To be made before any thread is: they
/// inherit it.
class Signals {
 public:
  Signals();

  /// Waits for the next one.
  int wait() const;
  /// 0 if none came in time.
  int wait(std::chrono::milliseconds timeout) const;

 private:
  sigset_t set_{};
};

}  // namespace leasehold::worker
