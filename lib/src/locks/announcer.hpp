#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace leasehold::inline v0 {

/// Runs the callbacks of users on a thread of their own, in order: whatever they do, it does not
/// delay the keep-alive. The thread starts with the first callback.
///
/// May be destroyed by one of its own callbacks.
class Announcer {
 public:
  Announcer();
  /// Waits for the callbacks that were handed in.
  ~Announcer();

  /// `callback` must not throw.
  void announce(std::function<void()> callback);

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive us
  std::thread thread_;            // protected by state_->mutex
};

}  // namespace leasehold::inline v0
