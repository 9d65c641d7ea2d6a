#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "leasehold/lock_client.hpp"
#include "locks/grant.hpp"
#include "locks/janitor.hpp"
#include "locks/keep_alive.hpp"
#include "locks/lock_store.hpp"
#include "locks/telemetry.hpp"
#include "locks/waiting_room.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0 {

/// What a client and its locks share. Lives until the last of them is gone.
class LockCore : public std::enable_shared_from_this<LockCore> {
 public:
  LockCore(std::unique_ptr<LockStore> its_store, RunnerId its_runner,
           const LockClientOptions& options);

  /// Makes a handle on a new grant, which the keep-alive watches from now on.
  Lock hold(GrantTerms terms, const Granted& granted, Grant::TimePoint sent, int retries);

  /// Makes another handle on a re-entrant grant of this kind. Nothing if this client has none.
  std::optional<Lock> reenter(const std::string& name, LockKind kind, int retries);

  /// Gives one handle back, and the lock with the last one.
  Release release(const std::shared_ptr<Grant>& grant) noexcept;

  /// The same for several locks of this client, in one round trip.
  void release_all(std::span<Lock> locks) noexcept;

  /// Takes back requests that may have been granted but that nobody waits for any more; in the
  /// background, but no longer than `until`, if the store is unreachable.
  void take_back(std::span<const GrantId> grants, Grant::TimePoint until) noexcept;

  Ownership extend(const std::shared_ptr<Grant>& grant);
  Ownership downgrade(const std::shared_ptr<Grant>& grant);

  /// Called before every acquire. From the first on, messages of the store are heard, and losses
  /// can be announced. Throws Unavailable if the system has no thread left.
  void prepare(bool callbacks);

  /// After prepare(): waits until we hear, or for as long as that is likely to help.
  void wait_until_heard(Deadline deadline, const std::stop_token& stop) {
    if (!listener_ || listener_->wait_until_heard(deadline, stop)) return;
    waiting_room.set_hears(false);  // perhaps the user may not subscribe
  }

  // Each is thread-safe and uses those before it: the last is destroyed first.
  const RunnerId runner;
  const std::shared_ptr<spdlog::logger> logger;
  const std::unique_ptr<LockStore> store;
  LockTelemetry telemetry;
  Janitor janitor;
  KeepAlive keep_alive;
  WaitingRoom waiting_room;

 private:
  void hear(const LockMessage& message);
  bool drop_handle(Grant& grant);
  std::optional<Release> end(const std::shared_ptr<Grant>& grant) noexcept;
  Release release_grant(const Grant& grant);
  void release_later(const Grant& grant, const char* error) noexcept;

  ThreadMutex reentrant_mutex_;
  std::map<std::string, std::shared_ptr<Grant>> reentrant_ LEASEHOLD_GUARDED_BY(reentrant_mutex_);

  std::once_flag listening_;
  std::unique_ptr<LockListener> listener_;  // destroyed first: it calls the others
};

}  // namespace leasehold::inline v0
