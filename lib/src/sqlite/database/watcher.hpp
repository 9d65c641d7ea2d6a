#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "sqlite/database/database.hpp"
#include "sqlite/database/hub.hpp"
#include "support/internal_api.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0::sqlite {

/// Lets the users of a database tell its watcher what they do. Thread-safe; outlives the watcher.
class LEASEHOLD_INTERNAL_API Activity {
 public:
  /// This process uses the database. Cheap enough for every call.
  void keep_awake() noexcept { used_.store(true, std::memory_order_relaxed); }
  /// This process waits for something that may happen at any moment.
  void look_often();

 private:
  friend class Watcher;
  std::atomic<bool> used_{true};
  ThreadMutex mutex_;
  StoppableCondition changed_;
  bool look_often_ LEASEHOLD_GUARDED_BY(mutex_) = false;
};

/// Calls back, on a thread of its own, when something has happened in a database.
///
/// Messages of this process arrive immediately, through the hub. Other processes send none, so the
/// watcher looks whether the file has changed: every millisecond while it changes, then less and
/// less often down to every 25 ms, and once a second if this process does not use the database.
class LEASEHOLD_INTERNAL_API Watcher {
 public:
  struct Callbacks {
    std::function<void(std::string_view)> on_message;  ///< a message of this process
    std::function<void(Connection&)> on_change;        ///< another connection has changed the file
    std::function<void()> on_reset;                    ///< changes or messages may have been missed
  };

  /// `topic` is that of its messages on the hub. The database outlives it.
  Watcher(Database& database, const std::string& topic, Callbacks callbacks,
          std::shared_ptr<Activity> activity = std::make_shared<Activity>());
  ~Watcher();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  void run(const std::stop_token& stop);
  void look();
  bool has_changed();
  std::chrono::microseconds next_pause();

  Database& database_;
  const Callbacks callbacks_;
  const bool in_file_;

  const std::shared_ptr<Activity> activity_;
  std::deque<std::string> messages_ LEASEHOLD_GUARDED_BY(activity_->mutex_);

  // Used by the thread only:
  std::unique_ptr<Connection> connection_;
  bool was_connected_ = false;
  std::string version_;
  std::chrono::microseconds pause_;
  TimePoint used_at_;
  TimePoint looked_at_;

  std::unique_ptr<Hub::Subscription> subscription_;
  std::jthread thread_;
};

}  // namespace leasehold::inline v0::sqlite
