#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <utility>

#include "sqlite/database/watcher.hpp"
#include "sqlite_task_sql.hpp"
#include "support/thread_safety.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::sqlite {

/// The topic of the database's hub on which new tasks are announced.
inline constexpr const char* tasks_topic = "tasks";

/// Reports new tasks: those of this process at once, those of other processes within 25 ms.
class SqliteTaskListener : public TaskListener {
 public:
  explicit SqliteTaskListener(std::shared_ptr<Database> database)
      : database_(std::move(database)),
        watcher_(*database_, tasks_topic,
                 {.on_message = [this](std::string_view) { notify(); },
                  .on_change = [this](Connection& connection) { look(connection); },
                  .on_reset = [this] { notify(); }},
                 activity_) {}

  News wait(const std::stop_token& stop) override {
    ThreadLock lock(mutex_);
    while (!notified_ && !stop.stop_requested()) {
      activity_->keep_awake();  // otherwise the watcher would look only once a second
      changed_.wait_for(lock, stop, std::chrono::seconds{10},
                        [this]() LEASEHOLD_REQUIRES(mutex_) { return notified_; });
    }
    notified_ = false;
    return {};
  }

  void rest(std::chrono::milliseconds /*time*/, const std::stop_token& /*stop*/) override {}

 private:
  void notify() {
    const ThreadLock lock(mutex_);
    notified_ = true;
    changed_.notify_one();
  }

  /// Not every change is a new task: a worker must not be woken by the completions of others.
  void look(Connection& connection) {
    auto row = connection.prepare(task_sql::added);
    const std::int64_t added = row.step() ? row.integer(0) : 0;
    if (std::exchange(added_, added) != added) notify();
  }

  const std::shared_ptr<Database> database_;
  const std::shared_ptr<Activity> activity_ = std::make_shared<Activity>();
  ThreadMutex mutex_;
  StoppableCondition changed_;
  // True at first, for the tasks that were there before.
  bool notified_ LEASEHOLD_GUARDED_BY(mutex_) = true;
  std::int64_t added_ = -1;  // belongs to the watcher's thread
  Watcher watcher_;          // last, because its thread uses everything above
};

}  // namespace leasehold::inline v0::sqlite
