#include "leasehold/mutex.hpp"

#include "locks/deadline.hpp"
#include "locks/validation.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0 {

using std::chrono::milliseconds;

class Mutex::Gate {
 public:
  /// Whether the caller got through before the deadline.
  bool enter(Deadline deadline) {
    ThreadLock guard(mutex_);
    const auto is_free = [this]() LEASEHOLD_REQUIRES(mutex_) { return !taken_; };
    if (!left_.wait_until(guard, deadline, is_free)) return false;
    taken_ = true;
    return true;
  }

  void leave() noexcept {
    {
      const ThreadLock guard(mutex_);
      taken_ = false;
    }
    left_.notify_one();
  }

 private:
  ThreadMutex mutex_;
  ThreadCondition left_;
  bool taken_ LEASEHOLD_GUARDED_BY(mutex_) = false;
};

Mutex::Mutex(LockClient& client, std::string name, LockOptions options)
    : client_(client),
      name_(std::move(name)),
      options_(std::move(options)),
      gate_(std::make_unique<Gate>()) {
  check_lock_name(name_);
  check_lock_options(options_);
}

Mutex::~Mutex() = default;

void Mutex::lock() { acquire(LockOptions::forever); }

bool Mutex::try_lock() { return acquire(milliseconds{0}); }

bool Mutex::acquire(milliseconds wait) {
  const Deadline deadline = deadline_after(wait);
  if (!gate_->enter(deadline)) return false;
  LockOptions options = options_;
  options.on_conflict = OnConflict::wait;
  options.wait = wait_until(deadline);
  try {
    if (auto acquired = client_.acquire(name_, options)) {
      held_.emplace(*std::move(acquired));
      return true;
    }
  } catch (...) {
    unlock();
    throw;
  }
  unlock();
  return false;
}

void Mutex::unlock() noexcept {
  held_.reset();  // released before another thread of this process may ask for it
  gate_->leave();
}

}  // namespace leasehold::inline v0
