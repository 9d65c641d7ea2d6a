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

/// A named read/write lock: many readers or one writer. The writer's side is the same lock as
/// LockClient::acquire() of that name.
///
/// Readers and writers stand in one line: a writer that waits stops new readers, readers that
/// waited behind it come in together. Each reader has a lease of its own: one that crashed does not
/// live on because others renew theirs. Writers get growing tokens, readers that of the last
/// writer.
///
/// Thread safety: every member may be called from any thread. May outlive its client.
class LEASEHOLD_API SharedLock {
 public:
  /// Throws InvalidArgument for a bad name.
  SharedLock(const LockClient& client, std::string name);

  /// Both as LockClient::acquire(). Lock::downgrade() makes a writer a reader. Among the options
  /// `reentry` is for writers, and OnConflict::force lets a reader oust a writer only.
  Acquisition read(const LockOptions& options = {}, std::stop_token stop = {});
  Acquisition write(const LockOptions& options = {}, std::stop_token stop = {});

  const std::string& name() const noexcept { return name_; }

 private:
  std::shared_ptr<LockCore> core_;
  std::string name_;
};

/// A named number of permits. Each permit is a lease of its own, with its heartbeat and its signal
/// of loss, and is handed out in the order of the line.
///
/// The number travels with each acquire() and resize(); the last one that reached Redis counts, for
/// everybody. A larger one lets waiters in at once; a smaller one takes no permit away, but none is
/// handed out until enough came back. A crashed holder's permit is free when its ttl ends.
///
/// Its name is one with the names of locks: whoever takes an exclusive lock of the same name
/// waits until no permit is out, and keeps permits from being handed out.
///
/// Thread safety: every member may be called from any thread. May outlive its client.
class LEASEHOLD_API Semaphore {
 public:
  /// `permits` is 1 to 1,000,000. Throws InvalidArgument.
  Semaphore(const LockClient& client, std::string name, int permits);

  /// One permit. As LockClient::acquire(); OnConflict::force hands out one more than there are.
  Acquisition acquire(const LockOptions& options = {}, std::stop_token stop = {});

  /// Changes the number, here and in Redis.
  void resize(int permits);

  const std::string& name() const noexcept { return name_; }
  int permits() const noexcept { return permits_->load(); }

 private:
  std::shared_ptr<LockCore> core_;
  std::string name_;
  std::shared_ptr<std::atomic<int>> permits_;
};

}  // namespace leasehold::inline v0
