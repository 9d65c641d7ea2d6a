#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/export.hpp"
#include "leasehold/lock.hpp"
#include "leasehold/lock_observer.hpp"
#include "leasehold/lock_set.hpp"
#include "leasehold/redis_link.hpp"
#include "leasehold/runner_id.hpp"

namespace spdlog {
class logger;
}

namespace leasehold::inline v0 {

class LockCore;  // internal

struct LockClientOptions {
  /// For redis:// and redis+unix:// only.
  RedisOptions redis;

  /// For sqlite: only. How long a call tries while other processes write to the file; then it
  /// throws Unavailable, and nothing has happened. 1 ms to 1 h. Default 5 s.
  std::chrono::milliseconds sqlite_timeout{5'000};

  /// Who we are. Default: RunnerId::of_this_process().
  std::optional<RunnerId> runner;

  /// How long the record of a holder that vanished can be seen after its lease ended: by the next
  /// holder (a takeover), by list() and by the stale count. Costs memory in the store for
  /// crashed holders only. Default 1 h.
  std::chrono::milliseconds keep_stale_records{3'600'000};

  /// How long the store remembers the token counter of a lock, counted from the first grant
  /// (SQLite: from the last). A lost counter starts again from the server's clock in µs, above all
  /// earlier tokens; remembering it only matters if that clock is set back, by up to this much.
  /// Costs about 100 bytes a lock name used within this time. Default 1 h.
  std::chrono::milliseconds keep_counters{3'600'000};

  /// Told of every event. Default: nobody.
  std::shared_ptr<LockObserver> observer;

  /// Where to log. Default: warnings and errors to stderr, nothing below.
  std::shared_ptr<spdlog::logger> logger;
};

/// Named locks in one Redis, or in a SQLite file or memory of this machine. Cheap to use, costs
/// four threads and three connections to have: make one for the process.
///
/// Lock names are 1 to 512 bytes without control characters or braces.
/// Thread safety: every member may be called from any thread. Locks may outlive their client.
class LEASEHOLD_API LockClient {
 public:
  /// For example LockClient{"redis://127.0.0.1:6379"}. Connects with the first call.
  ///
  /// Without a server: "sqlite:PATH" is a file that the processes of this machine share (not over a
  /// network), "sqlite::memory:" belongs to this client alone, "sqlite::memory:NAME" to all clients
  /// of this process that name it. These are opened here: throws ServerRefused or Unavailable if
  /// that is not possible. Leases are judged by the machine's monotonic clock. See docs/locks.md.
  explicit LockClient(std::string_view uri, LockClientOptions options = {});

  /// Over a link of your own; of `options.redis` only the command_timeout is used then: no
  /// heartbeat waits longer for its reply.
  explicit LockClient(std::shared_ptr<RedisLink> link, LockClientOptions options = {});

  LockClient(LockClient&&) noexcept;
  LockClient& operator=(LockClient&&) noexcept;
  ~LockClient();

  /// Takes the lock or says why not. Costs one round trip when it is free.
  ///
  /// If `stop` fires, or anything is thrown, nothing is left behind in Redis, or is removed in the
  /// background as soon as Redis answers.
  ///
  /// Throws InvalidArgument; Unavailable or ServerRefused if the lock was certainly not taken;
  /// OutcomeUnknown if replies were lost again and again. While there is time to `wait`, a Redis
  /// that is away or loading is tried again.
  Acquisition acquire(std::string_view name, const LockOptions& options = {},
                      std::stop_token stop = {});

  /// Takes all of the locks, or none. In whatever order callers name them, they cannot deadlock.
  /// Costs one round trip when all are free.
  ///
  /// Nothing is held while it waits: it stands in line for the first lock that is busy, and when
  /// that one is granted, tries the others at once; if one of them is busy it lets go of all and
  /// stands in line for that one. So it can be overtaken while others hold single locks of the set.
  ///
  /// Up to 64 names; OnConflict::wait or fail_fast. Throws what acquire() throws.
  SetAcquisition acquire_all(const std::vector<std::string>& names, const LockOptions& options = {},
                             std::stop_token stop = {});

  /// Who holds the lock, or vanished with it, and who stands in line. Nothing if it is free.
  std::optional<LockRecord> status(std::string_view name);

  /// The records of all locks whose name matches the glob-style pattern (`*`, `?`, `[a-z]`),
  /// sorted by name. Walks over the whole key space in pages; never blocks Redis.
  std::vector<LockRecord> list(std::string_view pattern = "*");

  /// The same without holding them all in memory, in no particular order. The visitor returns
  /// whether it wants more.
  void visit(std::string_view pattern, const std::function<bool(const LockRecord&)>& visitor);

  /// Removes the records of holders that vanished; returns what it removed. They would expire
  /// by themselves (see LockClientOptions::keep_stale_records).
  std::vector<LockRecord> cleanup_stale(std::string_view pattern = "*");

  /// Takes the lock away from whoever holds it; returns its record, or nothing if it was free. For
  /// operators. The holder is told at once; the next in line gets the lock.
  std::optional<LockRecord> force_release(std::string_view name);

  LockStats stats(StatsScope scope = StatsScope::process);

  const RunnerId& runner() const noexcept;

 private:
  friend class SharedLock;
  friend class Semaphore;

  std::shared_ptr<LockCore> core_;
};

}  // namespace leasehold::inline v0
