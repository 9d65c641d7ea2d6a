#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "leasehold/export.hpp"
#include "leasehold/fencing_token.hpp"

namespace leasehold::inline v0 {

class Grant;     // internal: one grant, shared by its handles and the keep-alive
class LockCore;  // internal: what a client and its locks share

enum class LockState {
  held,   ///< a living lease
  stale,  ///< the lease ended without a release: its holder crashed, hung or lost its way to Redis
};

enum class LockKind {
  exclusive,  ///< one holder
  shared,     ///< many holders at once: readers, or those who have a permit
};

/// Somebody who stands in line for a lock.
struct LockWaiter {
  std::string runner;
  int pid = 0;
  std::string host;
  LockKind kind = LockKind::exclusive;
  int priority = 0;
  std::chrono::system_clock::time_point since;  ///< the server's time
};

/// Who holds a lock, or held it until its lease ended. Times are the server's.
struct LockRecord {
  std::string name;
  LockKind kind = LockKind::exclusive;
  LockState state = LockState::held;
  std::string runner;  ///< empty if the key was not written by Leasehold
  int pid = 0;
  std::string host;
  std::string platform;
  std::map<std::string, std::string> metadata;  ///< the holder's own words
  FencingToken token;                           ///< 0 if it is not known
  std::chrono::system_clock::time_point acquired_at;
  std::chrono::system_clock::time_point heartbeat_at;  ///< the last one; the grant is the first
  std::uint64_t renewals = 0;
  std::chrono::milliseconds ttl{0};
  std::chrono::milliseconds age{0};            ///< since acquired_at
  std::chrono::milliseconds heartbeat_age{0};  ///< since heartbeat_at
  std::chrono::milliseconds remaining{0};      ///< of the lease; 0 if it has ended

  // Of a shared lock everything above but name, kind, state and token is empty: see `holders`.
  std::uint64_t holder_count = 1;
  std::uint64_t waiter_count = 0;
  std::vector<LockRecord> holders;  ///< of a shared lock; filled by status() only
  std::vector<LockWaiter> waiters;  ///< the next one first; filled by status() only
};

enum class OnConflict {
  wait,         ///< stand in line for up to `wait`
  fail_fast,    ///< return at once
  retry,        ///< try again by `retry`, within `wait`; not in line, so that others go first
  steal_stale,  ///< like `wait`, but take the lock from a holder silent for `steal_after`
  force,        ///< take it in any case: an operator's override
};

enum class Queueing {
  fair,     ///< first come, first served within a priority
  barging,  ///< before everybody who waits already
};

enum class Heartbeat {
  automatic,  ///< the client renews the lease in the background
  manual,     ///< the caller calls extend()
};

enum class Reentry {
  refused,  ///< a lock that this runner holds already is busy, as for anybody else
  allowed,  ///< it is shared: same token, released when the last handle is
};

/// For OnConflict::retry: `first`, then `factor` times as long each time up to `longest`, each
/// shortened by a random share of up to a half so that contenders drift apart.
struct RetryPolicy {
  int retries = 5;
  std::chrono::milliseconds first{100};
  double factor = 2.0;
  std::chrono::milliseconds longest{16'000};
};

enum class LossReason {
  none,      ///< not lost
  expired,   ///< could not be renewed in time, e.g. because Redis was unreachable
  taken,     ///< somebody else holds it now: stolen, forced, or granted after it expired
  vanished,  ///< the key is gone: deleted from outside, forcibly released, or Redis lost its data
  max_hold,  ///< held for as long as `max_hold` allows
};

struct LockLoss {
  std::string name;
  FencingToken token;
  LossReason reason = LossReason::none;
};

struct LockOptions {
  /// How long the lock outlives its holder: the longest time that a crash blocks the others.
  /// At least 20 ms, at most 24 h. Shorter costs more heartbeats. Default 30 s.
  std::chrono::milliseconds ttl{30'000};

  /// How long to try before acquire() returns nothing. 0 tries once; `forever` never gives up.
  /// Default 10 s. Does not apply to `fail_fast`.
  std::chrono::milliseconds wait{10'000};
  static constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

  /// Default: renewed by the client every third of the ttl, or as `heartbeat_every` says. All locks
  /// due are renewed in one round trip.
  Heartbeat heartbeat = Heartbeat::automatic;

  /// For Heartbeat::automatic: the time between two renewals, 1 ms to half of the ttl. Shorter
  /// costs round trips; longer leaves less time for another try after one that failed. 0, the
  /// default, means a third of the ttl.
  std::chrono::milliseconds heartbeat_every{0};

  /// Renewal stops after this time and the lock is lost (LossReason::max_hold), so that a stuck
  /// holder is not kept alive for ever. 0, the default, means no limit.
  std::chrono::milliseconds max_hold{0};

  OnConflict on_conflict = OnConflict::wait;
  RetryPolicy retry;

  /// Place in the line: a waiter with a higher priority overtakes, but boundedly. With each step of
  /// difference it is served before at most 8 who came earlier, so that nobody starves.
  /// From -100 to 100. Default 0.
  int priority = 0;

  /// Default: fair.
  Queueing queueing = Queueing::fair;

  /// For steal_stale: how long a holder must have been silent. A holder is never thought silent
  /// before it missed two of its own heartbeats. The robbed holder is told at once, if it can hear,
  /// and its token is outranked. Only exclusive holders are robbed. Costs a look at the lock
  /// whenever the holder may be silent: at most one a second, ten just before it is. Default 5 s.
  std::chrono::milliseconds steal_after{5'000};

  /// Default: refused.
  Reentry reentry = Reentry::refused;

  /// Shown to everybody who asks who holds the lock. At most 4 KiB in all. Default: none.
  std::map<std::string, std::string> metadata;

  /// Called once when the lock is lost, after `lost()` fired, on a thread of the client. May block;
  /// that delays other loss callbacks, never a renewal. Default: none.
  std::function<void(const LockLoss&)> on_lost;
};

enum class Ownership {
  held,     ///< renewed: ours, for another ttl
  lost,     ///< no longer ours; final
  unknown,  ///< Redis did not answer: still ours until valid_until(), try again
};

enum class Release {
  done,      ///< it was ours and is free now
  was_lost,  ///< it was not ours any more
  unknown,  ///< Redis did not answer: tried again in the background, free when the ttl ends at last
};

/// For logs and messages.
LEASEHOLD_API const char* to_string(LockState state) noexcept;
LEASEHOLD_API const char* to_string(LossReason reason) noexcept;
LEASEHOLD_API const char* to_string(Ownership ownership) noexcept;
LEASEHOLD_API const char* to_string(Release release) noexcept;

/// A lock that this process holds. Move-only; the destructor releases it.
///
/// What a handle promises ends before the server's: it counts from the moment the request was sent,
/// on the steady clock, minus a margin of 1 % of the ttl and 2 ms.
///
/// Thread safety: const members from any thread; the others from one thread at a time.
class LEASEHOLD_API Lock {
 public:
  Lock(Lock&&) noexcept;
  Lock& operator=(Lock&&) noexcept;
  /// Releases. Never throws; what it could not do is logged and tried again in the background.
  /// If a reply is lost it asks a second time. Each time may take a command time-out and, if the
  /// connection has to be made first, two connect time-outs: 10 s in all by default, at worst.
  ~Lock();

  const std::string& name() const noexcept;

  /// See FencingToken.
  FencingToken token() const noexcept;

  /// The value, with 128 random bits, that proves this grant to Redis.
  const std::string& owner() const noexcept;

  /// Whether the lock is held and trusted at this moment. Asks no server.
  bool valid() const noexcept;

  /// Until when it is trusted if no further renewal succeeds.
  std::chrono::steady_clock::time_point valid_until() const noexcept;

  /// Fires when the lock is lost, before valid_until(). Does not fire on release.
  /// A std::stop_callback on it runs on a thread that all locks of the client share and must not
  /// block: other locks would hear of their loss late. What takes time belongs into `on_lost`.
  std::stop_token lost() const noexcept;
  LossReason loss_reason() const noexcept;

  /// If the previous holder vanished without releasing (or was robbed): its record.
  const std::optional<LockRecord>& took_over_from() const noexcept;

  /// Whether this handle shares the grant of an earlier one (Reentry::allowed).
  bool reentered() const noexcept;

  /// How often acquire() tried again before it got the lock.
  int retries() const noexcept;

  /// Renews the lease for its ttl, now. Needed only with Heartbeat::manual.
  Ownership extend();

  /// Turns an exclusive lock into a shared one without letting it go: readers that wait may come in
  /// beside it. The token stays. `unknown`: Redis did not answer; try again.
  Ownership downgrade();

  /// Who stands in line for this lock, the next one first. Asks Redis, throws what status() throws.
  std::vector<LockWaiter> waiters() const;

  /// Gives the lock back. Calling it again returns the same answer and does nothing.
  Release release() noexcept;

 private:
  friend class LockCore;
  friend class LockSet;
  Lock(std::shared_ptr<LockCore> core, std::shared_ptr<Grant> grant, bool reentered, int retries);

  std::shared_ptr<LockCore> core_;
  std::shared_ptr<Grant> grant_;
  std::optional<Release> released_;
  bool reentered_ = false;
  int retries_ = 0;
};

enum class RefusalReason {
  busy,       ///< somebody else holds it, and the time or the retries allowed are used up
  cancelled,  ///< the caller's stop token fired
};

/// Why acquire() returned nothing.
struct Refusal {
  RefusalReason reason = RefusalReason::busy;
  std::optional<LockRecord> holder;  ///< as of the last attempt; none if cancelled before it
  std::chrono::milliseconds retry_after{0};  ///< trying again earlier is hardly worthwhile
  int retries = 0;                           ///< attempts after the first
};

/// A lock, or the reason why there is none. Used like std::optional.
template <class Held>
class BasicAcquisition {
 public:
  explicit BasicAcquisition(Held held) : held_(std::move(held)) {}
  explicit BasicAcquisition(Refusal refusal) : refusal_(std::move(refusal)) {}

  explicit operator bool() const noexcept { return held_.has_value(); }
  bool has_value() const noexcept { return held_.has_value(); }

  /// Undefined if there is no lock.
  Held* operator->() noexcept { return &*held_; }
  Held& operator*() & noexcept { return *held_; }
  Held&& operator*() && noexcept { return std::move(*held_); }

  /// Throws std::bad_optional_access if there is no lock.
  Held& value() & { return held_.value(); }
  Held&& value() && { return std::move(held_).value(); }

  /// Why there is no lock. Empty in every field if there is one.
  const Refusal& refusal() const noexcept { return refusal_; }

 private:
  std::optional<Held> held_;
  Refusal refusal_;
};

using Acquisition = BasicAcquisition<Lock>;

}  // namespace leasehold::inline v0
