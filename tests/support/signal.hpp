#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>

#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// Longer than anything that is awaited takes on a machine that is busy with other things.
inline constexpr std::chrono::seconds patience{30};
/// The same for what takes several steps: tasks that expire, are taken back and run again.
inline constexpr std::chrono::seconds long_patience{60};

/// Something that happens once, and that other threads can wait for. Copies are the same signal:
/// what runs on another thread captures a copy, because it may outlive the test that waits.
class Signal {
 public:
  void set() const {
    const std::lock_guard guard(state_->mutex);
    state_->set = true;
    state_->changed.notify_all();
  }

  /// False if it was not set in time.
  [[nodiscard]] bool wait(std::chrono::milliseconds timeout = long_patience) const {
    std::unique_lock guard(state_->mutex);
    return state_->changed.wait_for(guard, timeout, [this] { return state_->set; });
  }

  bool is_set() const {
    const std::lock_guard guard(state_->mutex);
    return state_->set;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool set = false;  // guarded by mutex
  };

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Whether a stop is requested in time.
[[nodiscard]] inline bool wait_for_stop(const std::stop_token& token,
                                        std::chrono::milliseconds timeout = long_patience) {
  Signal stopped;
  const std::stop_callback set{token, [stopped] { stopped.set(); }};
  return stopped.wait(timeout);
}

}  // namespace leasehold::testing
