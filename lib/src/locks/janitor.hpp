#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace spdlog {
class logger;
}

namespace leasehold::inline v0 {

class LockStore;

/// Releases what could not be released when it should have been, because the store was away: tried
/// again until it works or the lease has ended by itself. The thread starts when first needed.
class Janitor {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  Janitor(LockStore& store, std::shared_ptr<spdlog::logger> logger);
  /// Gives up what is left, and logs it.
  ~Janitor();

  /// A grant that nobody holds any more, or that may never have been made.
  void release_later(std::string name, std::string owner, TimePoint lease_end);

 private:
  struct Orphan {
    std::string name;
    std::string owner;
    TimePoint lease_end;
  };

  void run(const std::stop_token& stop);
  bool release(const Orphan& orphan) noexcept;

  LockStore& store_;
  const std::shared_ptr<spdlog::logger> logger_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Orphan> orphans_;  // protected by mutex_
  std::jthread thread_;         // started under mutex_
};

}  // namespace leasehold::inline v0
