#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace leasehold::inline v0 {

/// Runs callbacks of users in order, on a thread of its own, so that they cannot delay the
/// keep-alive.
///
/// May be destroyed by one of its own callbacks.
class Announcer {
 public:
  Announcer();
  /// Waits for the callbacks that were handed in.
  ~Announcer();

  /// Starts the thread if it does not run yet. Throws Unavailable.
  void start();

  /// Once it was started. `callback` must not throw.
  void announce(std::function<void()> callback);

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;  // shared with the thread, which may outlive us
};

}  // namespace leasehold::inline v0
