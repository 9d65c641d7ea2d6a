#include "leasehold/shared_mutex.hpp"

#include <algorithm>

#include "locks/deadline.hpp"
#include "locks/validation.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;

LockOptions until(Deadline deadline, LockOptions options) {
  options.on_conflict = OnConflict::wait;
  options.wait = wait_until(deadline);
  return options;
}

}  // namespace

SharedMutex::SharedMutex(LockClient& client, std::string name, LockOptions options)
    : lock_(client, std::move(name)), options_(std::move(options)) {
  check_lock_options(options_);
}

bool SharedMutex::acquire(milliseconds wait) {
  const auto deadline = deadline_after(wait);
  {
    std::unique_lock guard(mutex_);
    ++waiting_writers_;
    const bool free = changed_.wait_until(
        guard, deadline, [this] { return !writer_ && readers_ == 0 && readers_first_ == 0; });
    --waiting_writers_;
    if (free) writer_ = true;
    if (!free) {
      changed_.notify_all();  // for readers that waited for us
      return false;
    }
  }
  try {
    if (auto acquired = lock_.write(until(deadline, options_))) {
      const std::lock_guard guard(mutex_);
      write_lock_.emplace(*std::move(acquired));
      return true;
    }
  } catch (...) {
    leave_gate_as_writer();
    throw;
  }
  leave_gate_as_writer();
  return false;
}

void SharedMutex::unlock() noexcept {
  std::optional<Lock> lock;
  {
    const std::lock_guard guard(mutex_);
    lock.swap(write_lock_);
  }
  lock.reset();  // released before another thread of this process may ask for it
  leave_gate_as_writer();
}

bool SharedMutex::acquire_shared(milliseconds wait) {
  const auto deadline = deadline_after(wait);
  {
    std::unique_lock guard(mutex_);
    ++waiting_readers_;
    const bool free = changed_.wait_until(guard, deadline, [this] {
      return !writer_ && (waiting_writers_ == 0 || readers_first_ > 0);
    });
    --waiting_readers_;
    if (free && readers_first_ > 0) --readers_first_;
    if (!free) {
      readers_first_ = std::min(readers_first_, waiting_readers_);
      changed_.notify_all();  // for a writer that waited for us
      return false;
    }
    ++readers_;
  }
  try {
    if (auto acquired = lock_.read(until(deadline, options_))) {
      const std::lock_guard guard(mutex_);
      read_locks_.push_back(*std::move(acquired));
      return true;
    }
  } catch (...) {
    leave_gate_as_reader();
    throw;
  }
  leave_gate_as_reader();
  return false;
}

void SharedMutex::unlock_shared() noexcept {
  std::optional<Lock> lock;
  {
    // It does not matter which one: each stands for one reader.
    const std::lock_guard guard(mutex_);
    lock.emplace(std::move(read_locks_.back()));
    read_locks_.pop_back();
  }
  lock.reset();
  leave_gate_as_reader();
}

void SharedMutex::leave_gate_as_writer() noexcept {
  const std::lock_guard guard(mutex_);
  writer_ = false;
  readers_first_ = waiting_readers_;
  changed_.notify_all();
}

void SharedMutex::leave_gate_as_reader() noexcept {
  const std::lock_guard guard(mutex_);
  --readers_;
  changed_.notify_all();
}

}  // namespace leasehold::inline v0
