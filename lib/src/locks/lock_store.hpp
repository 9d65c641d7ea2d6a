#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "leasehold/lock.hpp"

namespace leasehold::inline v0 {

/// How far a claim may go against a present holder.
enum class ClaimMode {
  if_free,    ///< only a lock without a living lease
  if_silent,  ///< also one whose holder missed its heartbeats
  always,     ///< any
};

/// Whether the caller may take over what an earlier incarnation of its own runner left behind.
enum class Adoption { refused, allowed };

/// Whether a claim that is not granted waits.
enum class Join {
  no,
  tail,  ///< stands in line
  head,  ///< before everybody else
};

/// Whether the number of permits that a claim brings along counts from now on. That of the first
/// attempt does; a later one of the same call must not undo a resize that came between.
enum class PermitCount {
  counts,
  is_known,  ///< counts only if the store has forgotten it
};

/// A wish to hold a lock.
struct LockClaim {
  std::string_view name;
  std::string_view owner;     ///< 32 hex digits, new for each claim
  std::string_view metadata;  ///< a JSON object, or empty
  std::chrono::milliseconds ttl;
  std::chrono::milliseconds heartbeat_every;  ///< 0 if the holder promises none
  ClaimMode mode = ClaimMode::if_free;
  std::chrono::milliseconds steal_after{0};  ///< for if_silent
  Adoption adoption = Adoption::refused;

  LockKind kind = LockKind::exclusive;
  int permits = 0;  ///< for shared: how many may hold it at once; 0 for any number
  PermitCount permit_count = PermitCount::counts;

  Join join = Join::no;
  int priority = 0;
  std::uint64_t place = 0;  ///< in the line, as an earlier conflict told; 0 for a new one
};

enum class GrantKind {
  fresh,     ///< it was free
  handed,    ///< by the line
  repeated,  ///< granted before, to this very claim: a reply was lost
  adopted,   ///< from an earlier incarnation of this runner; the token stays
  stale,     ///< from a holder whose lease had ended
  stolen,    ///< from a silent holder
  forced,    ///< from a living holder
};

struct LockGrant {
  GrantKind kind = GrantKind::fresh;
  FencingToken token;
  std::optional<LockRecord> previous;  ///< the holder that vanished or was ousted, if any
};

struct LockConflict {
  LockRecord holder;
  std::uint64_t place = 0;  ///< in the line, if the claim joined it
};

using ClaimOutcome = std::variant<LockGrant, LockConflict>;

enum class RenewalResult {
  renewed,
  vanished,  ///< the lock is nobody's
  taken,     ///< the lock is somebody else's
  failed,    ///< the store refused; `error` says why
};

/// A lease to be prolonged.
struct LockRenewal {
  std::string_view name;
  std::string_view owner;
  std::string_view metadata;
  FencingToken token;
  std::chrono::milliseconds ttl;  ///< from now
  std::chrono::milliseconds heartbeat_every;
  LockKind kind = LockKind::exclusive;
  std::uint64_t renewals = 0;         ///< this one counted
  std::chrono::milliseconds held{0};  ///< since the grant

  RenewalResult result = RenewalResult::failed;
  std::string error;
};

enum class ReleaseResult { released, vanished, taken };

/// Whether a grant still stands.
enum class Standing { held, vanished, taken };

/// Names a grant.
struct LockGrantId {
  std::string_view name;
  std::string_view owner;
};

/// A line in which this process waits.
struct LineWatch {
  std::string name;
  std::string owner;  ///< of its waiter that looked longest ago

  bool in_line = true;  ///< whether that one still is, or was granted the lock
  /// Of the present holder, or when the head of the line has to have answered; -1 if unknown.
  std::chrono::milliseconds lease_ends{-1};
};

/// Word from the store, for one claim of this process.
struct LockMessage {
  enum class Type {
    granted,   ///< to a waiter: confirm by claiming again
    taken,     ///< from a holder, by somebody else
    vanished,  ///< from a holder, by an operator who released it
    reset,     ///< messages may have been missed: everybody has to look
  };
  Type type;
  std::string owner;  ///< empty for reset
};

/// What the calls of one store met.
struct StoreCounts {
  std::uint64_t waiters_evicted = 0;  ///< found dead or frozen
  std::uint64_t busy_retries = 0;     ///< others were in the way, and the store tried again
};

/// Hears messages for as long as it lives.
class LockListener {
 public:
  virtual ~LockListener() = default;
};

/// Where locks are kept. Thread-safe.
///
/// Every call may throw Unavailable (nothing happened), OutcomeUnknown (it may have) or
/// ServerRefused (nothing happened). Each is idempotent for one owner, so that after
/// OutcomeUnknown it can simply be made again.
class LockStore {
 public:
  virtual ~LockStore() = default;

  /// Takes an exclusive lock that is entirely free; another one stays as it is. The lean way, tried
  /// first.
  virtual std::optional<FencingToken> take_free(const LockClaim& claim) = 0;
  /// The same for several locks, in one round trip.
  virtual std::vector<std::optional<FencingToken>> take_free(std::span<const LockClaim> claims) = 0;

  /// Takes a lock as far as the claim's mode allows, confirms a grant, or stands in line for it.
  virtual ClaimOutcome claim(const LockClaim& claim) = 0;

  /// Renews all of them in one round trip and writes the result into each. `timeout` bounds the
  /// call, however long the store's own time-outs are.
  virtual void renew(std::span<LockRenewal> renewals, std::chrono::milliseconds timeout) = 0;

  /// Whether they still stand, in one round trip. What is left of one that does not is removed.
  virtual std::vector<Standing> verify(std::span<const LockGrantId> grants,
                                       std::chrono::milliseconds timeout) = 0;

  /// Gives back what the owner has: the lock, a grant that it has not confirmed, its place in line.
  virtual ReleaseResult release(std::string_view name, std::string_view owner) = 0;

  /// The same for several, in one round trip.
  virtual std::vector<ReleaseResult> release_all(std::span<const LockGrantId> grants) = 0;

  /// Makes an exclusive lease a shared one.
  virtual RenewalResult downgrade(const LockRenewal& renewal) = 0;

  /// Changes the number of permits of a semaphore.
  virtual void resize(std::string_view name, int permits) = 0;

  /// Sees that the lines move, in one round trip for all.
  virtual void watch_lines(std::span<LineWatch> lines) = 0;

  /// Calls the handler, on a thread of the listener, for every message to this process. Returns
  /// nothing if the store cannot push: then watching the lines has to do.
  virtual std::unique_ptr<LockListener> listen(std::function<void(const LockMessage&)> handler) = 0;

  virtual StoreCounts counts() const = 0;

  /// How long a call may take.
  virtual std::chrono::milliseconds timeout() const = 0;

  /// With the shared holders and the line.
  virtual std::optional<LockRecord> status(std::string_view name) = 0;

  /// Without them.
  virtual void visit(std::string_view pattern,
                     const std::function<bool(const LockRecord&)>& visitor) = 0;

  /// Removes the records whose lease has ended; returns them.
  virtual std::vector<LockRecord> remove_stale(std::string_view pattern) = 0;
  virtual std::optional<LockRecord> force_release(std::string_view name) = 0;

  /// Where the locks are, for messages.
  virtual std::string where() const = 0;
};

}  // namespace leasehold::inline v0
