#include "leasehold/shared_mutex.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "locks/deadline.hpp"
#include "locks/validation.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;

LockOptions until(Deadline deadline, LockOptions options) {
  options.on_conflict = OnConflict::wait;
  options.wait = wait_until(deadline);
  return options;
}

}  // namespace

class SharedMutex::Gate {
 public:
  // Whether the caller got through before the deadline.
  bool enter_as_writer(Deadline deadline) {
    ThreadLock guard(mutex_);
    ++waiting_writers_;
    const auto is_free = [this]() LEASEHOLD_REQUIRES(mutex_) {
      return !writer_ && readers_ == 0 && readers_first_ == 0;
    };
    const bool free = changed_.wait_until(guard, deadline, is_free);
    --waiting_writers_;
    if (free) {
      writer_ = true;
    } else {
      changed_.notify_all();  // for readers that waited for us
    }
    return free;
  }

  bool enter_as_reader(Deadline deadline) {
    ThreadLock guard(mutex_);
    ++waiting_readers_;
    const auto is_free = [this]() LEASEHOLD_REQUIRES(mutex_) {
      return !writer_ && (waiting_writers_ == 0 || readers_first_ > 0);
    };
    const bool free = changed_.wait_until(guard, deadline, is_free);
    --waiting_readers_;
    if (free) {
      if (readers_first_ > 0) --readers_first_;
      ++readers_;
    } else {
      readers_first_ = std::min(readers_first_, waiting_readers_);
      changed_.notify_all();  // for a writer that waited for us
    }
    return free;
  }

  void leave_as_writer() noexcept {
    const ThreadLock guard(mutex_);
    writer_ = false;
    readers_first_ = waiting_readers_;
    changed_.notify_all();
  }

  void leave_as_reader() noexcept {
    const ThreadLock guard(mutex_);
    --readers_;
    changed_.notify_all();
  }

  void keep_writer(Lock lock) {
    const ThreadLock guard(mutex_);
    write_lock_.emplace(std::move(lock));
  }

  void keep_reader(Lock lock) {
    const ThreadLock guard(mutex_);
    read_locks_.push_back(std::move(lock));
  }

  std::optional<Lock> take_writer() noexcept {
    const ThreadLock guard(mutex_);
    return std::exchange(write_lock_, std::nullopt);
  }

  /// It does not matter which lock: each stands for one reader.
  std::optional<Lock> take_reader() noexcept {
    const ThreadLock guard(mutex_);
    std::optional<Lock> lock(std::move(read_locks_.back()));
    read_locks_.pop_back();
    return lock;
  }

 private:
  ThreadMutex mutex_;
  ThreadCondition changed_;
  // A thread of this process writes, or asks the store to.
  bool writer_ LEASEHOLD_GUARDED_BY(mutex_) = false;
  // Threads of this process that read, or ask the store to.
  int readers_ LEASEHOLD_GUARDED_BY(mutex_) = 0;
  int waiting_writers_ LEASEHOLD_GUARDED_BY(mutex_) = 0;
  int waiting_readers_ LEASEHOLD_GUARDED_BY(mutex_) = 0;
  // Waiting readers that come in before the next writer.
  int readers_first_ LEASEHOLD_GUARDED_BY(mutex_) = 0;
  std::optional<Lock> write_lock_ LEASEHOLD_GUARDED_BY(mutex_);
  std::vector<Lock> read_locks_ LEASEHOLD_GUARDED_BY(mutex_);
};

SharedMutex::SharedMutex(LockClient& client, std::string name, LockOptions options)
    : lock_(client, std::move(name)),
      options_(std::move(options)),
      gate_(std::make_unique<Gate>()) {
  check_lock_options(options_);
}

SharedMutex::~SharedMutex() = default;

bool SharedMutex::acquire(milliseconds wait) {
  const auto deadline = deadline_after(wait);
  if (!gate_->enter_as_writer(deadline)) return false;
  try {
    if (auto acquired = lock_.write(until(deadline, options_))) {
      gate_->keep_writer(*std::move(acquired));
      return true;
    }
  } catch (...) {
    gate_->leave_as_writer();
    throw;
  }
  gate_->leave_as_writer();
  return false;
}

void SharedMutex::unlock() noexcept {
  gate_->take_writer().reset();  // released before another thread of this process may ask for it
  gate_->leave_as_writer();
}

bool SharedMutex::acquire_shared(milliseconds wait) {
  const auto deadline = deadline_after(wait);
  if (!gate_->enter_as_reader(deadline)) return false;
  try {
    if (auto acquired = lock_.read(until(deadline, options_))) {
      gate_->keep_reader(*std::move(acquired));
      return true;
    }
  } catch (...) {
    gate_->leave_as_reader();
    throw;
  }
  gate_->leave_as_reader();
  return false;
}

void SharedMutex::unlock_shared() noexcept {
  gate_->take_reader().reset();
  gate_->leave_as_reader();
}

}  // namespace leasehold::inline v0
