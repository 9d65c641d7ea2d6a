#include "sqlite/database/watcher.hpp"

#include <algorithm>

#include "leasehold/errors.hpp"
#include "support/start_thread.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr microseconds shortest_pause = 1ms;
constexpr microseconds longest_pause = 25ms;
constexpr microseconds resting_pause = 1s;
constexpr auto rests_after = 30s;  // without a call of this process
// A watcher that was stopped for longer may have missed messages that are not kept any more.
constexpr auto longest_absence = 5s;

constexpr EmbeddedText data_version{"data_version", "", "PRAGMA data_version"};

}  // namespace

Watcher::Watcher(Database& database, const std::string& topic, Callbacks callbacks,
                 std::shared_ptr<Activity> activity)
    : database_(database),
      callbacks_(std::move(callbacks)),
      in_file_(database.uri().kind == SqliteUri::Kind::file),
      activity_(std::move(activity)),
      pause_(shortest_pause),
      used_at_(steady_clock::now()),
      looked_at_(used_at_) {
  subscription_ = database.hub().subscribe(topic, [this](std::string_view message) {
    const ThreadLock lock(activity_->mutex_);
    messages_.emplace_back(message);
    activity_->changed_.notify_one();
  });
  thread_ =
      start_thread("that watches the database", [this](const std::stop_token& stop) { run(stop); });
}

Watcher::~Watcher() {
  subscription_.reset();
  thread_.request_stop();
  thread_.join();
}

void Activity::look_often() {
  keep_awake();
  const ThreadLock lock(mutex_);
  look_often_ = true;
  changed_.notify_one();
}

void Watcher::run(const std::stop_token& stop) {
  ThreadLock lock(activity_->mutex_);
  const auto is_called = [this]() LEASEHOLD_REQUIRES(activity_->mutex_) {
    return !messages_.empty() || activity_->look_often_;
  };
  auto& changed = activity_->changed_;
  while (!stop.stop_requested()) {
    in_file_ ? changed.wait_for(lock, stop, next_pause(), is_called)
             : changed.wait(lock, stop, is_called);
    if (std::exchange(activity_->look_often_, false)) pause_ = shortest_pause;
    const auto messages = std::exchange(messages_, {});
    lock.unlock();
    for (const std::string& message : messages) callbacks_.on_message(message);
    if (in_file_) look();
    lock.lock();
  }
}

microseconds Watcher::next_pause() {
  const auto now = steady_clock::now();
  if (activity_->used_.exchange(false, std::memory_order_relaxed)) used_at_ = now;
  if (now - used_at_ > rests_after) return resting_pause;
  const auto pause = pause_;
  pause_ = std::min(pause_ * 3 / 2, longest_pause);
  return pause;
}

void Watcher::look() {
  const auto now = steady_clock::now();
  const bool was_away = now - looked_at_ > longest_absence;
  looked_at_ = now;
  try {
    const bool anew = !connection_ || connection_->moved();
    if (anew) connection_ = database_.connect();
    if (was_away || (anew && was_connected_)) callbacks_.on_reset();
    was_connected_ = true;
    if (!has_changed()) return;
    pause_ = shortest_pause;
    callbacks_.on_change(*connection_);
  } catch (const Busy&) {
    version_.clear();  // look again
  } catch (const Error&) {
    // Callers that use the file get the error. The watcher tries again.
    connection_.reset();
    version_.clear();
    pause_ = longest_pause;
  }
}

bool Watcher::has_changed() {
  auto row = connection_->prepare(data_version);
  row.step();
  if (row.text(0) == version_) return false;
  version_ = row.text(0);
  return true;
}

}  // namespace leasehold::inline v0::sqlite
