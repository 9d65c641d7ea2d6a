#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "leasehold/lock_client.hpp"
#include "locks/janitor.hpp"
#include "locks/keep_alive.hpp"
#include "locks/lease.hpp"
#include "locks/lock_store.hpp"
#include "locks/telemetry.hpp"
#include "locks/waiting_room.hpp"

namespace leasehold::inline v0 {

/// What a client and its locks share. Lives until the last of them is gone.
class LockCore : public std::enable_shared_from_this<LockCore> {
 public:
  LockCore(std::unique_ptr<LockStore> store, RunnerId runner, const LockClientOptions& options);

  /// A handle on a new grant, known to the keep-alive from now on.
  Lock hold(LeaseTerms terms, const LockGrant& grant, Lease::TimePoint sent, int retries);

  /// Another handle on a re-entrant lease of this kind that this client holds. Nothing if there is
  /// none.
  std::optional<Lock> reenter(const std::string& name, LockKind kind, int retries);

  /// Gives one handle back, and with the last one the lock.
  Release release(const std::shared_ptr<Lease>& lease) noexcept;

  /// The same for several locks of this client, in one round trip.
  void release_all(std::span<Lock> locks) noexcept;

  Ownership extend(const std::shared_ptr<Lease>& lease);
  Ownership downgrade(const std::shared_ptr<Lease>& lease);

  /// From the first lock on: hears when one is granted to a waiter, or taken from a holder.
  void start_listening();

  // Each is thread-safe. In the order of dependence: the last is destroyed first.
  const RunnerId runner;
  const std::shared_ptr<spdlog::logger> logger;
  const std::unique_ptr<LockStore> store;
  LockTelemetry telemetry;
  Janitor janitor;
  KeepAlive keep_alive;
  WaitingRoom waiting_room;

 private:
  void hear(const LockMessage& message);
  bool drop_handle(Lease& lease);
  std::optional<Release> end(const std::shared_ptr<Lease>& lease) noexcept;
  Release release_grant(const Lease& lease);
  void release_later(const Lease& lease, const char* error) noexcept;

  std::mutex reentrant_mutex_;
  std::map<std::string, std::shared_ptr<Lease>> reentrant_;  // protected by reentrant_mutex_

  std::once_flag listening_;
  std::unique_ptr<LockListener> listener_;  // the first to go: it calls the others
};

}  // namespace leasehold::inline v0
