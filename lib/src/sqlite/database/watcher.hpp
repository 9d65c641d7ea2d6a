#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "sqlite/database/database.hpp"
#include "sqlite/database/hub.hpp"
#include "support/internal_api.hpp"

namespace leasehold::inline v0::sqlite {

/// What those who use a database tell its watcher. Thread-safe, and outlives it.
class LEASEHOLD_INTERNAL_API Activity {
 public:
  /// This process uses the database: cheap, for every call.
  void keep_awake() noexcept { used_.store(true, std::memory_order_relaxed); }
  /// It waits for something that may happen right now.
  void look_often();

 private:
  friend class Watcher;
  std::atomic<bool> used_{true};
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool look_often_ = false;  // protected by mutex_
};

/// Calls back, on a thread of its own, when something happened in a database.
///
/// Word of this process arrives at once, through the hub. What other processes do nobody tells: the
/// watcher looks whether the file has changed, every millisecond while things happen, then more and
/// more rarely, up to every 25 ms, and once a second if this process does nothing itself.
class LEASEHOLD_INTERNAL_API Watcher {
 public:
  struct Callbacks {
    std::function<void(std::string_view)> on_message;  ///< word of this process
    std::function<void(Connection&)> on_change;        ///< another connection has changed the file
    std::function<void()> on_reset;                    ///< something may have been missed
  };

  /// `topic` is what it hears on the hub of the database, which outlives it.
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
  std::deque<std::string> messages_;  // protected by the activity's mutex

  // Of the thread:
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
