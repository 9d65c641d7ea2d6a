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

class Grant;     // internal: one hold of a lock, shared by its handles and the heartbeats
class LockCore;  // internal: what a client and its locks share

enum class LockState {
  held,
  stale,  ///< expired without a release: the holder crashed, hung or lost its connection
};

enum class LockKind {
  exclusive,  ///< one holder
  shared,     ///< many holders at once: readers, or holders of a permit
};

/// A process that waits in line for a lock.
struct LockWaiter {
  std::string runner;
  int pid = 0;
  std::string host;
  LockKind kind = LockKind::exclusive;
  int priority = 0;
  std::chrono::system_clock::time_point since;  ///< by the store's clock
};

/// Who holds a lock, or held it until it expired. Times are by the store's clock.
struct LockRecord {
  std::string name;
  LockKind kind = LockKind::exclusive;
  LockState state = LockState::held;
  std::string runner;  ///< empty if the key was not written by Leasehold
  int pid = 0;
  std::string host;
  std::string platform;
  std::map<std::string, std::string> metadata;  ///< see LockOptions::metadata
  FencingToken token;                           ///< 0 if it is not known
  std::chrono::system_clock::time_point acquired_at;
  std::chrono::system_clock::time_point
      heartbeat_at;  ///< of the last heartbeat; the grant is the first
  std::uint64_t renewals = 0;
  std::chrono::milliseconds ttl{0};
  std::chrono::milliseconds age{0};            ///< since acquired_at
  std::chrono::milliseconds heartbeat_age{0};  ///< since heartbeat_at
  std::chrono::milliseconds remaining{0};      ///< until it expires; 0 if it has expired

  // For a shared lock, everything above except name, kind, state and token is empty: see `holders`.
  std::uint64_t holder_count = 1;
  std::uint64_t waiter_count = 0;
  std::vector<LockRecord> holders;  ///< of a shared lock; only status() fills it
  std::vector<LockWaiter> waiters;  ///< the next one first; only status() fills it
};

enum class OnConflict {
  wait,         ///< wait in line for up to `wait`
  fail_fast,    ///< return at once
  retry,        ///< try again as `retry` says, for up to `wait`; does not wait in line
  steal_stale,  ///< like `wait`, but take the lock from a holder that is silent for `steal_after`
  force,        ///< take the lock from whoever holds it: an operator's override
};

enum class Queueing {
  fair,     ///< first come, first served within a priority
  barging,  ///< ahead of everybody who already waits
};

enum class Heartbeat {
  automatic,  ///< the client renews the lock in the background
  manual,     ///< the caller renews it with extend()
};

enum class Reentry {
  refused,  ///< the lock counts as busy even for the runner that holds it
  allowed,  ///< handles share the grant and its token; releasing the last handle releases the lock
};

/// For OnConflict::retry. The first pause is `first`, each later one `factor` times as long, up to
/// `longest`. Each pause is shortened at random by up to a half, so that contenders spread out.
struct RetryPolicy {
  int retries = 5;
  std::chrono::milliseconds first{100};
  double factor = 2.0;
  std::chrono::milliseconds longest{16'000};
};

enum class LossReason {
  none,      ///< not lost
  expired,   ///< not renewed in time, for example because the store was unreachable
  taken,     ///< somebody else holds it now: stolen, forced, or granted after it expired
  vanished,  ///< deleted from outside, released by an operator, or the store lost its data
  max_hold,  ///< held for as long as `max_hold` allows
};

struct LockLoss {
  std::string name;
  FencingToken token;
  LossReason reason = LossReason::none;
};

struct LockOptions {
  // ---- What you get

  /// The lock expires at most this long after its holder crashes; until then others wait.
  /// 20 ms to 24 h. Shorter costs more heartbeats. Default 30 s.
  std::chrono::milliseconds ttl{30'000};

  /// The lock is lost (LossReason::max_hold) after this time, so that a stuck holder does not keep
  /// it forever. 0 means no limit. Default 0.
  std::chrono::milliseconds max_hold{0};

  /// Whether this runner can acquire a lock that it already holds. Default: refused.
  Reentry reentry = Reentry::refused;

  /// Shown to everybody who asks who holds the lock. At most 4 KiB in all. Default: empty.
  std::map<std::string, std::string> metadata;

  /// Called once when the lock is lost, after `lost()` has fired, on a thread of the client. It may
  /// block: that delays the callbacks of other locks, but no heartbeat. Default: none.
  std::function<void(const LockLoss&)> on_lost;

  // ---- What it costs to keep it

  /// Who renews the lock. The client renews all locks that are due in one round trip. Default:
  /// automatic.
  Heartbeat heartbeat = Heartbeat::automatic;

  /// The time between two automatic heartbeats, 1 ms to half of the ttl. Shorter costs round trips;
  /// longer leaves less time to retry a heartbeat that failed. 0 means a third of the ttl.
  /// Default 0.
  std::chrono::milliseconds heartbeat_every{0};

  // ---- What to do if somebody else holds it

  /// How long acquire() tries. 0 tries once; `forever` never gives up. `fail_fast` ignores it.
  /// Default 10 s.
  std::chrono::milliseconds wait{10'000};
  static constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

  /// Default: wait.
  OnConflict on_conflict = OnConflict::wait;

  /// The pauses of OnConflict::retry.
  RetryPolicy retry;

  /// How long a holder must be silent before OnConflict::steal_stale takes its lock. A holder that
  /// has missed fewer than two of its own heartbeats is never considered silent. The old holder is
  /// told at once, if it can be reached, and its token is outranked. Only exclusive locks can be
  /// stolen. The waiter has to look at the lock: about once a second, and ten times a second
  /// shortly before the holder counts as silent. Default 5 s.
  std::chrono::milliseconds steal_after{5'000};

  /// A waiter with a higher priority overtakes others in the line, within bounds: for each step of
  /// difference it is served before at most 8 waiters that came earlier, so that nobody starves.
  /// -100 to 100. Default 0.
  int priority = 0;

  /// Where in the line to wait. Default: fair.
  Queueing queueing = Queueing::fair;
};

enum class Ownership {
  held,     ///< renewed: held for another ttl
  lost,     ///< not held any more; final
  unknown,  ///< the store did not answer: still held until valid_until(), try again
};

enum class Release {
  done,      ///< it was held, and this handle has given it up
  was_lost,  ///< it was not held any more
  unknown,   ///< the store did not answer: retried in the background; free at the latest after the
             ///< ttl
};

/// For logs and messages.
LEASEHOLD_API const char* to_string(LockState state) noexcept;
LEASEHOLD_API const char* to_string(LossReason reason) noexcept;
LEASEHOLD_API const char* to_string(Ownership ownership) noexcept;
LEASEHOLD_API const char* to_string(Release release) noexcept;

/// A lock that this process holds. Move-only; the destructor releases it.
///
/// A handle stops trusting its lock before the store lets it expire: it counts from the moment the
/// request was sent, on the steady clock, and subtracts 1 % of the ttl and 2 ms.
///
/// Thread safety: const members from any thread; the others from one thread at a time.
class LEASEHOLD_API Lock {
 public:
  Lock(Lock&&) noexcept;
  Lock& operator=(Lock&&) noexcept;
  /// Releases the lock. Never throws. If the store does not answer, it asks once more, and then
  /// retries in the background and logs it. Each of the two requests takes at most one command
  /// time-out and, if the connection has to be made first, two connect time-outs: with the default
  /// options 10 s in all.
  ~Lock();

  const std::string& name() const noexcept;

  /// Pass it on to whatever the lock protects: see FencingToken.
  FencingToken token() const noexcept;

  /// The value that identifies this grant in the store: 128 random bits.
  const std::string& owner() const noexcept;

  /// Whether the lock is held and trusted at this moment. Asks no server.
  bool valid() const noexcept;

  /// The end of trust if no further heartbeat succeeds.
  std::chrono::steady_clock::time_point valid_until() const noexcept;

  /// Fires when the lock is lost, before valid_until(). Does not fire on release.
  ///
  /// A std::stop_callback on it runs on a thread that all locks of the client share. It must not
  /// block, because that would delay the signal for other locks; use LockOptions::on_lost for work
  /// that takes time.
  std::stop_token lost() const noexcept;
  LossReason loss_reason() const noexcept;

  /// The record of the previous holder, if it did not release the lock: its grant expired, or the
  /// lock was taken from it.
  const std::optional<LockRecord>& took_over_from() const noexcept;

  /// Whether this handle shares the grant of an earlier handle (Reentry::allowed).
  bool reentered() const noexcept;

  /// How many attempts acquire() made after the first one.
  int retries() const noexcept;

  /// Renews the lock now, for its whole ttl. Needed only with Heartbeat::manual.
  Ownership extend();

  /// Turns an exclusive lock into a shared one without releasing it, so that waiting readers can
  /// come in. The token stays the same. Returns `unknown` if the store did not answer: try again.
  Ownership downgrade();

  /// Who waits in line for this lock, the next one first. Asks the store; throws what
  /// LockClient::status() throws.
  std::vector<LockWaiter> waiters() const;

  /// Releases the lock. A second call returns the same answer and does nothing.
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
  busy,       ///< somebody else holds the lock, and the allowed time or retries are used up
  cancelled,  ///< the caller's stop token fired
};

/// Why acquire() returned nothing.
struct Refusal {
  RefusalReason reason = RefusalReason::busy;
  std::optional<LockRecord> holder;          ///< at the last attempt; none if there was no attempt
  std::chrono::milliseconds retry_after{0};  ///< how long to wait before trying again
  int retries = 0;                           ///< attempts after the first one
};

/// A lock, or the reason why there is none. Use it like a std::optional.
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

  /// Why there is no lock. Meaningless if there is one.
  const Refusal& refusal() const noexcept { return refusal_; }

 private:
  std::optional<Held> held_;
  Refusal refusal_;
};

using Acquisition = BasicAcquisition<Lock>;

}  // namespace leasehold::inline v0
