#pragma once

#include <atomic>
#include <memory>
#include <stop_token>
#include <string>

#include "leasehold/export.hpp"
#include "leasehold/lock.hpp"

namespace leasehold::inline v0 {

class LockClient;
class LockCore;

/// A named read/write lock: many readers, or one writer. A writer holds the same lock that
/// LockClient::acquire() takes by this name.
///
/// Readers and writers wait in one line. A waiting writer keeps new readers out; the readers that
/// waited behind it come in together. Each reader has a grant of its own, which expires if that
/// reader crashes, whatever the others do. Each writer gets a larger token; readers get the token
/// of the last writer.
///
/// Thread safety: every member may be called from any thread. May outlive its client.
class LEASEHOLD_API SharedLock {
 public:
  /// Throws InvalidArgument for a bad name.
  SharedLock(const LockClient& client, std::string name);

  /// Both work like LockClient::acquire(). Lock::downgrade() turns a writer into a reader. Only
  /// writers can use `reentry`. A reader that uses OnConflict::force can only take the lock from a
  /// writer.
  Acquisition read(const LockOptions& options = {}, std::stop_token stop = {});
  Acquisition write(const LockOptions& options = {}, std::stop_token stop = {});

  const std::string& name() const noexcept { return name_; }

 private:
  std::shared_ptr<LockCore> core_;
  std::string name_;
};

/// A named semaphore: at most a given number of holders at once. Each permit is a grant of its own,
/// with its own heartbeat and its own signal of loss. Waiters get permits in the order of the line.
///
/// Each acquire() and resize() sends the number of permits; the last number that reached the store
/// counts for everybody. A larger number lets waiters in at once. A smaller number takes no permit
/// away, but no new one is granted until enough have been released. The permit of a crashed holder
/// is free when its ttl ends.
///
/// Semaphores and locks share their names. An exclusive lock with the name of a semaphore waits
/// until no permit is held, and no permit is granted while that lock is held.
///
/// Thread safety: every member may be called from any thread. May outlive its client.
class LEASEHOLD_API Semaphore {
 public:
  /// `permits` is 1 to 1,000,000. Throws InvalidArgument.
  Semaphore(const LockClient& client, std::string name, int permits);

  /// Takes one permit. Works like LockClient::acquire(). OnConflict::force grants a permit even if
  /// none is left.
  Acquisition acquire(const LockOptions& options = {}, std::stop_token stop = {});

  /// Changes the number of permits, here and in the store.
  void resize(int permits);

  const std::string& name() const noexcept { return name_; }
  int permits() const noexcept { return permits_->load(); }

 private:
  std::shared_ptr<LockCore> core_;
  std::string name_;
  std::shared_ptr<std::atomic<int>> permits_;
};

}  // namespace leasehold::inline v0
