#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>

#include "sqlite/database/watcher.hpp"
#include "sqlite_task_sql.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::sqlite {

/// What is told on the hub of a database when tasks were added.
inline constexpr const char* tasks_topic = "tasks";

/// Hears of new tasks: of those of this process at once, of those of others within 25 ms.
class SqliteTaskListener : public TaskListener {
 public:
  explicit SqliteTaskListener(std::shared_ptr<Database> database)
      : database_(std::move(database)),
        watcher_(*database_, tasks_topic,
                 {.on_message = [this](std::string_view) { hear(); },
                  .on_change = [this](Connection& connection) { look(connection); },
                  .on_reset = [this] { hear(); }},
                 activity_) {}

  void wait(const std::stop_token& stop) override {
    std::unique_lock lock(mutex_);
    while (!heard_ && !stop.stop_requested()) {
      activity_->keep_awake();  // or it would look once a second only
      changed_.wait_for(lock, stop, std::chrono::seconds{10}, [this] { return heard_; });
    }
    heard_ = false;
  }

 private:
  void hear() {
    const std::lock_guard guard(mutex_);
    heard_ = true;
    changed_.notify_one();
  }

  /// Not every change is a new task: a worker must not be woken by the completions of others.
  void look(Connection& connection) {
    auto row = connection.prepare(task_sql::added);
    const std::int64_t added = row.step() ? row.integer(0) : 0;
    if (std::exchange(added_, added) != added) hear();
  }

  const std::shared_ptr<Database> database_;
  const std::shared_ptr<Activity> activity_ = std::make_shared<Activity>();
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool heard_ = true;        // protected by mutex_. At first: what there was before
  std::int64_t added_ = -1;  // of the watcher's thread
  Watcher watcher_;          // last: its thread uses everything above
};

}  // namespace leasehold::inline v0::sqlite
