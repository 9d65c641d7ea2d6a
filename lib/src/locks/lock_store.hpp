#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "leasehold/lock.hpp"
#include "locks/deadline.hpp"
#include "locks/lock_message.hpp"

namespace leasehold::inline v0 {

/// How far a request may go against a present holder.
enum class AcquireMode {
  if_free,    ///< takes only a lock that nobody holds
  if_silent,  ///< also takes one whose holder missed its heartbeats
  always,     ///< takes it from any holder
};

/// Whether a request may take over what an earlier incarnation of its own runner left behind.
enum class Adoption { refused, allowed };

/// What becomes of a request that is not granted.
enum class Join {
  no,    ///< it leaves nothing behind
  tail,  ///< it waits in line
  head,  ///< it waits in line, before everybody else
};

/// Which attempt of one call a request is.
enum class Attempt {
  first,  ///< nothing is known of the lock, which may be free
  later,  ///< the call has met a holder, or stands in line
};

/// What an acquire sends to the store.
struct AcquireRequest {
  std::string_view name;
  std::string_view owner;     ///< 32 hex digits, new for each grant
  std::string_view metadata;  ///< a JSON object, or empty
  std::chrono::milliseconds ttl;
  std::chrono::milliseconds heartbeat_every;  ///< 0 if the holder promises none
  AcquireMode mode = AcquireMode::if_free;
  std::chrono::milliseconds steal_after{0};  ///< for if_silent
  Adoption adoption = Adoption::refused;

  LockKind kind = LockKind::exclusive;
  /// For shared: how many may hold the lock at once; 0 for any number. The number of a first
  /// attempt counts for everybody from then on. That of a later attempt counts only if the store
  /// has none, so that it does not undo a resize in between.
  int permits = 0;

  Attempt attempt = Attempt::first;
  Join join = Join::no;
  int priority = 0;
  std::uint64_t place = 0;  ///< in the line, from an earlier Conflict; 0 for a new one

  /// Called, if it is set, before the request joins the line: from then on the caller must hear
  /// messages for `owner`.
  std::function<void()> before_joining{};
};

enum class GrantKind {
  fresh,     ///< the lock was free
  handed,    ///< the line offered it, and the request confirmed the offer
  repeated,  ///< this very request was granted before, and its reply was lost
  adopted,  ///< taken over from an earlier incarnation of this runner; the token stays, unless that
            ///< may be alive
  stale,    ///< taken over from a holder that had expired
  stolen,   ///< taken from a silent holder
  forced,   ///< taken from a living holder
};

struct Granted {
  GrantKind kind = GrantKind::fresh;
  FencingToken token;
  std::optional<LockRecord> previous;  ///< the holder that expired or was ousted, if any
};

struct Conflict {
  LockRecord holder;
  std::uint64_t place = 0;  ///< in the line, if the request joined it
  bool alone = false;       ///< no other client waits there
};

using AcquireOutcome = std::variant<Granted, Conflict>;

enum class RenewalResult {
  renewed,
  vanished,  ///< nobody has the lock
  taken,     ///< somebody else has the lock
  failed,    ///< the store refused; `error` says why
};

/// A grant to be prolonged.
struct LockRenewal {
  std::string_view name;
  std::string_view owner;
  std::string_view metadata;
  FencingToken token;
  std::chrono::milliseconds ttl;  ///< from now
  std::chrono::milliseconds heartbeat_every;
  LockKind kind = LockKind::exclusive;
  std::uint64_t renewals = 0;         ///< including this one
  std::chrono::milliseconds held{0};  ///< since the grant

  RenewalResult result = RenewalResult::failed;
  std::string error;
  bool unanswered = false;  ///< failed, and its reply was lost: it may have been executed
};

enum class ReleaseResult { released, vanished, taken };

/// Whether a grant still stands.
enum class Standing { held, vanished, taken };

struct GrantId {
  std::string_view name;
  std::string_view owner;
};

/// A line in which this process waits.
struct LineWatch {
  std::string name;
  std::string owner;  ///< of the waiter of this process that looked longest ago

  enum class Found {
    waiting,  ///< that waiter still stands in line
    offered,  ///< it was offered the lock, or has it: it has to ask again
    missing,  ///< all waiters of this process have to ask again
  };
  Found found = Found::waiting;
  /// Time until the present grant or offer ends, or until the head of the line must have shown
  /// itself, whichever is earlier; -1 if unknown.
  std::chrono::milliseconds look_in{-1};
  bool alone = false;  ///< no other client waits there
  std::string error;   ///< why the store could not tell; the members above mean nothing then
};

struct StoreCounts {
  std::uint64_t waiters_evicted = 0;  ///< waiters whose process had crashed or hung
  std::uint64_t busy_retries = 0;     ///< calls that other processes blocked and that were repeated
};

/// Receives messages for as long as it lives.
class LockListener {
 public:
  virtual ~LockListener() = default;

  /// Waits until messages arrive here. False at the deadline at the latest, or if the token fires,
  /// and soon if they seem not to arrive at all.
  virtual bool wait_until_heard(Deadline /*deadline*/, const std::stop_token& /*stop*/) {
    return true;
  }
};

/// Where locks are kept. Thread-safe.
///
/// Every call may throw Unavailable (nothing happened), OutcomeUnknown (it may have happened) or
/// ServerRefused (nothing happened, unless a script failed halfway). Except acquire_free(), each is
/// idempotent for one owner, so that it can simply be repeated after OutcomeUnknown.
class LockStore {
 public:
  virtual ~LockStore() = default;

  /// Takes the lock as far as the mode allows, confirms an offer, or joins the line. A free lock
  /// costs one round trip.
  virtual AcquireOutcome acquire(const AcquireRequest& request) = 0;

  /// Takes those of several exclusive locks that are free, in one round trip, and leaves the others
  /// as they are. Returns the tokens in the same order; nothing for one that is not free. Repeating
  /// it needs new owners.
  virtual std::vector<std::optional<FencingToken>> acquire_free(
      std::span<const AcquireRequest> requests) = 0;

  /// Renews all of them in one round trip and writes the result into each. `timeout` bounds the
  /// call, even if the store's own time-out is longer.
  virtual void renew(std::span<LockRenewal> renewals, std::chrono::milliseconds timeout) = 0;

  /// Names the server that has this lock, as far as is known without asking. Renewals for different
  /// servers do not wait for each other. Empty if all locks are on one server.
  virtual std::string server_of(std::string_view /*name*/) { return {}; }

  /// Asks in one round trip whether the grants still stand. Removes what is left of those that do
  /// not.
  virtual std::vector<Standing> verify(std::span<const GrantId> grants,
                                       std::chrono::milliseconds timeout) = 0;

  /// Gives back what the owner has: the lock, an offer, or a place in the line.
  virtual ReleaseResult release(std::string_view name, std::string_view owner) = 0;

  /// The same for several, in one round trip.
  virtual std::vector<ReleaseResult> release_all(std::span<const GrantId> grants) = 0;

  /// Gives back an offer that nobody waits for any more. A grant that was confirmed stays.
  virtual void decline(const GrantId& offer) = 0;

  /// Turns an exclusive grant into a shared one.
  virtual RenewalResult downgrade(const LockRenewal& renewal) = 0;

  /// Changes the number of permits of a semaphore.
  virtual void resize(std::string_view name, int permits) = 0;

  /// Keeps the lines moving if a holder or a waiter has crashed, and shows that this client is
  /// alive, in one round trip for all. What fails for one line does not concern the others.
  virtual void watch_lines(std::span<LineWatch> lines) = 0;

  /// Calls the handler, on a thread of the listener, for every message to this client. Returns
  /// nothing if the store cannot push messages; the client then relies on watch_lines().
  virtual std::unique_ptr<LockListener> listen(std::function<void(const LockMessage&)> handler) = 0;

  virtual StoreCounts counts() const = 0;

  /// The longest that a call may take.
  virtual std::chrono::milliseconds timeout() const = 0;

  /// Includes the shared holders and the line.
  virtual std::optional<LockRecord> status(std::string_view name) = 0;

  /// Passes records without shared holders and line, until the visitor returns false.
  virtual void visit(std::string_view pattern,
                     const std::function<bool(const LockRecord&)>& visitor) = 0;

  /// Removes and returns the records of holders that have expired.
  virtual std::vector<LockRecord> remove_stale(std::string_view pattern) = 0;
  virtual std::optional<LockRecord> force_release(std::string_view name) = 0;

  /// The store's address, for messages.
  virtual std::string where() const = 0;
};

}  // namespace leasehold::inline v0
