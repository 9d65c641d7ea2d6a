#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "support/boot_clock.hpp"
#include "support/thread_safety.hpp"

namespace spdlog {
class logger;
}

namespace leasehold::inline v0 {

class LockStore;

/// Releases later what could not be released in time because the store was unreachable, and gives
/// back offers that nobody waits for. Tries until it succeeds, or the grant has ended by itself.
/// The thread starts when it is first needed.
class Janitor {
 public:
  using TimePoint = BootClock::time_point;

  Janitor(LockStore& store, std::shared_ptr<spdlog::logger> logger);
  /// Gives up what is left, and logs it.
  ~Janitor();

  /// Takes over a grant that nobody holds any more, or that may never have been made. `until` is
  /// when it ends by itself.
  void release_later(std::string name, std::string owner, TimePoint until) noexcept;

  /// Takes over an offer that nobody waits for. A grant that was confirmed stays.
  void decline_later(std::string name, std::string owner) noexcept;

  /// Starts the thread if there is work and it could not be started before.
  void resume() noexcept;

 private:
  enum class What { grant, offer };
  struct Orphan {
    What what;
    std::string name;
    std::string owner;
    TimePoint until;
  };

  void add(Orphan orphan) noexcept;
  void start() LEASEHOLD_REQUIRES(mutex_);

  void run(const std::stop_token& stop);
  bool release(const Orphan& orphan) noexcept;
  void warn(const Orphan& orphan, const char* why);
  void stop_thread();

  LockStore& store_;
  const std::shared_ptr<spdlog::logger> logger_;

  std::atomic<bool> lacks_thread_{false};  // it could not be started
  ThreadMutex mutex_;
  StoppableCondition changed_;
  std::deque<Orphan> orphans_ LEASEHOLD_GUARDED_BY(mutex_);
  TimePoint next_warning_{};  // used by the thread only, as is the next one
  int unsaid_ = 0;            // warnings since the last one
  std::jthread thread_ LEASEHOLD_GUARDED_BY(mutex_);
};

}  // namespace leasehold::inline v0
