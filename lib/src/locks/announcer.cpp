#include "locks/announcer.hpp"

#include <deque>

#include "support/start_thread.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0 {

struct Announcer::State {
  ThreadMutex mutex;
  ThreadCondition changed;
  std::deque<std::function<void()>> callbacks LEASEHOLD_GUARDED_BY(mutex);
  std::thread thread LEASEHOLD_GUARDED_BY(mutex);
  bool stopping LEASEHOLD_GUARDED_BY(mutex) = false;
};

Announcer::Announcer() : state_(std::make_shared<State>()) {}

Announcer::~Announcer() {
  std::thread thread;
  {
    const ThreadLock lock(state_->mutex);
    state_->stopping = true;
    thread = std::move(state_->thread);
  }
  state_->changed.notify_all();
  if (!thread.joinable()) return;
  if (thread.get_id() == std::this_thread::get_id()) {
    thread.detach();
  } else {
    thread.join();
  }
}

void Announcer::start() {
  const ThreadLock lock(state_->mutex);
  if (state_->thread.joinable()) return;
  state_->thread = start_thread<std::thread>("that tells of lost locks", run, state_);
}

void Announcer::announce(std::function<void()> callback) {
  {
    const ThreadLock lock(state_->mutex);
    state_->callbacks.push_back(std::move(callback));
  }
  state_->changed.notify_one();
}

void Announcer::run(const std::shared_ptr<State>& shared) {
  State& state = *shared;
  ThreadLock lock(state.mutex);
  for (;;) {
    state.changed.wait(lock, [&state]() LEASEHOLD_REQUIRES(state.mutex) {
      return state.stopping || !state.callbacks.empty();
    });
    if (state.callbacks.empty()) return;
    auto callback = std::move(state.callbacks.front());
    state.callbacks.pop_front();
    lock.unlock();
    callback();
    callback = nullptr;  // destroyed without the lock: what it owned may include the Announcer
    lock.lock();
  }
}

}  // namespace leasehold::inline v0
