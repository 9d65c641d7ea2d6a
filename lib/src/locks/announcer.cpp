#include "locks/announcer.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>

namespace leasehold::inline v0 {

struct Announcer::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> callbacks;  // protected by mutex
  bool stopping = false;                        // protected by mutex
};

Announcer::Announcer() : state_(std::make_shared<State>()) {}

Announcer::~Announcer() {
  std::thread thread;
  {
    const std::lock_guard guard(state_->mutex);
    state_->stopping = true;
    thread = std::move(thread_);
  }
  state_->changed.notify_all();
  if (!thread.joinable()) return;
  if (thread.get_id() == std::this_thread::get_id()) {
    thread.detach();
  } else {
    thread.join();
  }
}

void Announcer::announce(std::function<void()> callback) {
  {
    const std::lock_guard guard(state_->mutex);
    state_->callbacks.push_back(std::move(callback));
    if (!thread_.joinable()) thread_ = std::thread(run, state_);
  }
  state_->changed.notify_one();
}

void Announcer::run(const std::shared_ptr<State>& state) {
  std::unique_lock guard(state->mutex);
  for (;;) {
    state->changed.wait(guard, [&] { return state->stopping || !state->callbacks.empty(); });
    if (state->callbacks.empty()) return;
    auto callback = std::move(state->callbacks.front());
    state->callbacks.pop_front();
    guard.unlock();
    callback();
    callback = nullptr;  // before the lock: what it owned may include the Announcer
    guard.lock();
  }
}

}  // namespace leasehold::inline v0
