#include "leasehold/mutex.hpp"

#include "locks/deadline.hpp"
#include "locks/validation.hpp"

namespace leasehold::inline v0 {

using std::chrono::milliseconds;

Mutex::Mutex(LockClient& client, std::string name, LockOptions options)
    : client_(client), name_(std::move(name)), options_(std::move(options)) {
  check_lock_name(name_);
  check_lock_options(options_);
}

void Mutex::lock() { acquire(LockOptions::forever); }

bool Mutex::try_lock() { return acquire(milliseconds{0}); }

bool Mutex::acquire(milliseconds wait) {
  const Deadline deadline = deadline_after(wait);
  {
    std::unique_lock guard(mutex_);
    if (!unlocked_.wait_until(guard, deadline, [this] { return !taken_; })) return false;
    taken_ = true;
  }
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
  held_.reset();
  {
    const std::lock_guard guard(mutex_);
    taken_ = false;
  }
  unlocked_.notify_one();
}

}  // namespace leasehold::inline v0
