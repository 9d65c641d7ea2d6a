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
#include "leasehold/lock_stats.hpp"
#include "leasehold/redis_link.hpp"
#include "leasehold/runner_id.hpp"
#include "leasehold/sqlite_options.hpp"

namespace spdlog {
class logger;
}

namespace leasehold::inline v0 {

class LockCore;  // internal

struct LockClientOptions {
  /// For URIs that begin with redis.
  RedisOptions redis;

  /// For sqlite: URIs. The time-out is 5 s by default: a lock that takes longer is hardly useful.
  SqliteOptions sqlite{.timeout = std::chrono::seconds{5}};

  /// Which replicas must have a grant, or a heartbeat, before it counts. If they have not confirmed
  /// a grant in time, it is given back; an acquire with time to wait tries again, otherwise it
  /// throws ServerRefused with Reason::no_replicas. A heartbeat that they have not confirmed counts
  /// as failed. Releases do not wait for them. The time-out must be 1 ms to half of
  /// redis.command_timeout, and is added to the time that a call may take.
  ///
  /// A failover then loses a grant only if the new primary is a replica that had not confirmed it.
  /// With `all`, that can only be a replica that was not connected. Costs a round trip between the
  /// primary and its replicas for each grant; concurrent calls share it. Not for sqlite: URIs.
  /// Default: none, which costs nothing.
  RedisReplicas replicas;

  /// The name of this process in lock records. Default: RunnerId::of_this_process().
  std::optional<RunnerId> runner;

  /// How long the record of a crashed holder remains visible after its grant has expired: to the
  /// next holder (a takeover), to list(), and in the count of stale locks. Costs memory in the
  /// store for crashed holders only. Default 1 h.
  std::chrono::milliseconds keep_stale_records{3'600'000};

  /// How long the store remembers the token counter of a lock, counted from the first grant
  /// (SQLite: from the last). A forgotten counter restarts from the store's clock in µs. That is
  /// above all earlier tokens, unless the clock was set back by more than this time.
  /// Costs about 100 bytes for each lock name used within this time. Default 1 h.
  std::chrono::milliseconds keep_counters{3'600'000};

  /// Receives every event. Default: none.
  std::shared_ptr<LockObserver> observer;

  /// Where to log. Default: warnings and errors go to stderr, nothing else is logged.
  std::shared_ptr<spdlog::logger> logger;
};

/// Named locks in a Redis, or on this machine in SQLite: in a file or in memory. A client is
/// cheap to use, but has four threads (up to three more when needed) and up to three connections:
/// make one for the whole process. With sentinels it has one more thread, and a connection to each;
/// with a cluster one more thread, and two threads and up to three connections for each primary.
///
/// Lock names are 1 to 512 bytes without control characters or braces.
/// Thread safety: every member may be called from any thread. Locks may outlive their client.
class LEASEHOLD_API LockClient {
 public:
  /// For example LockClient{"redis://127.0.0.1:6379"}; connect_redis() lists all forms. The
  /// constructor does not connect; the first call does.
  ///
  /// Three forms need no server: "sqlite:PATH" is a file that the processes of this machine share
  /// (not over a network); "sqlite::memory:" belongs to this client alone; "sqlite::memory:NAME" is
  /// shared by all clients of this process that use the same name. The constructor opens
  /// these, and throws ServerRefused or Unavailable if it cannot. The time since the
  /// machine was started decides when a lock in SQLite expires. See docs/locks.md.
  explicit LockClient(std::string_view uri, LockClientOptions options = {});

  /// Uses a link of your own. Of `options.redis` only command_timeout is then used: it limits how
  /// long a heartbeat waits for its reply.
  explicit LockClient(std::shared_ptr<RedisLink> link, LockClientOptions options = {});

  LockClient(LockClient&&) noexcept;
  LockClient& operator=(LockClient&&) noexcept;
  ~LockClient();

  /// Takes the lock, or says why not. Costs one round trip when the lock is free.
  ///
  /// If `stop` fires or an exception is thrown, nothing is left behind in the store; what cannot be
  /// removed at once is removed in the background as soon as the store answers.
  ///
  /// Throws InvalidArgument; Unavailable or ServerRefused if the lock was certainly not taken; and
  /// OutcomeUnknown if replies were lost repeatedly. While there is time to `wait`, a store that is
  /// unavailable or loading is tried again.
  Acquisition acquire(std::string_view name, const LockOptions& options = {},
                      std::stop_token stop = {});

  /// Takes all of the locks, or none. Callers cannot deadlock, in whatever order they name the
  /// locks. Costs one round trip when all are free.
  ///
  /// Nothing is held while this call waits. It waits in line for the first lock that is busy. When
  /// it gets that lock, it tries the others at once; if one of them is busy, it releases all and
  /// waits in line for that one. It can therefore be overtaken by callers that want only one of the
  /// locks.
  ///
  /// Takes 1 to 64 names, and OnConflict::wait or fail_fast. Throws what acquire() throws.
  SetAcquisition acquire_all(const std::vector<std::string>& names, const LockOptions& options = {},
                             std::stop_token stop = {});

  /// Who holds the lock, or held it until it expired, and who waits. Nothing if the lock is free.
  std::optional<LockRecord> status(std::string_view name);

  /// The records of all locks whose name matches the glob-style pattern (`*`, `?`, `[a-z]`), sorted
  /// by name. Visits the whole key space page by page and does not block the store.
  std::vector<LockRecord> list(std::string_view pattern = "*");

  /// Passes the same records to the visitor one by one, in no particular order, without keeping
  /// them in memory. The visitor returns whether it wants more.
  void visit(std::string_view pattern, const std::function<bool(const LockRecord&)>& visitor);

  /// Removes the records of stale locks and returns them. They would disappear by themselves: see
  /// LockClientOptions::keep_stale_records.
  std::vector<LockRecord> cleanup_stale(std::string_view pattern = "*");

  /// Takes the lock away from its holder: for operators. Returns the holder's record, or nothing if
  /// the lock was free. The holder is told at once, and the next in line gets the lock.
  std::optional<LockRecord> force_release(std::string_view name);

  LockStats stats(StatsScope scope = StatsScope::process);

  const RunnerId& runner() const noexcept;

 private:
  friend class SharedLock;
  friend class Semaphore;

  std::shared_ptr<LockCore> core_;
};

}  // namespace leasehold::inline v0
