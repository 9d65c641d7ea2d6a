#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locks/lock_store.hpp"
#include "sqlite/database/database.hpp"
#include "sqlite/locks/stored_grant.hpp"

namespace leasehold::inline v0::sqlite {

/// What a transaction causes beside its result. Delivered after the commit.
struct LockEffects {
  struct Letter {
    std::string client;
    std::string message;  ///< see LockMessage
  };
  std::vector<Letter> letters;
  std::uint64_t evicted = 0;  ///< waiters whose process has crashed or hangs
};

/// The holders of one lock and its waiting line, within a transaction. Deals with grants that were
/// not renewed, and offers that were not confirmed, by the same rules as lua/include/line.lua.
class LockLine {
 public:
  enum class Holder {
    none,
    exclusive,  ///< a living grant or offer
    stale,      ///< a grant that expired without a release
    shared,     ///< living shared holders
  };

  LockLine(Transaction& transaction, std::string_view name, const ClockReading& clock,
           LockEffects& effects)
      : transaction_(transaction), name_(name), clock_(clock), effects_(effects) {}

  /// Reads the holders, without those that have lapsed. Changes nothing.
  void look();
  /// Reads the holders and removes those that have lapsed.
  void settle();

  Holder holder() const;
  /// The exclusive or the stale holder.
  const StoredGrant* current() const;
  /// The holder that expired, even if the lock was granted to others since.
  const StoredGrant* vanished() const;
  const StoredGrant* find(std::string_view owner) const;
  /// The grant of this owner, unless it has ended and others have the lock.
  const StoredGrant* grant_of(std::string_view owner) const;
  const std::vector<StoredGrant>& holders() const { return holders_; }
  std::size_t shared_holders() const;
  const ClockReading& clock() const { return clock_; }
  std::string_view name() const { return name_; }

  /// Offers the lock to as many of the next waiters as there is room for. Passes over those whose
  /// client does not count as alive.
  void advance();
  /// When a writer at the head of the line no longer keeps out those behind it, unless its client
  /// shows itself; set by advance().
  std::optional<std::chrono::milliseconds> head_ends() const { return head_ends_; }

  /// Notes that a client which waits is alive. Returns how many clients wait.
  std::size_t show(std::string_view client);
  bool is_seen(std::string_view client) const { return last_seen(client).has_value(); }
  /// Forgets the clients that do not count as alive any more.
  void forget_unseen();
  std::size_t clients() const;

  /// Grants the request.
  void hold(const AcquireRequest& request, const ClientIdentity& identity, FencingToken token);
  /// Renews an exclusive grant as a shared one.
  void downgrade(const LockRenewal& renewal, std::chrono::milliseconds linger);
  /// Takes the lock from all holders and sends each this message.
  void oust(LockMessage::Type message);
  void remove(std::string_view owner);
  /// Joins the line, unless the request stands in it already. Returns its place.
  std::uint64_t join(const AcquireRequest& request, const ClientIdentity& identity);
  void remove_waiter(std::string_view owner);
  bool is_waiting(std::string_view owner) const;
  /// Whether another owner is next.
  bool others_wait(std::string_view owner) const;
  std::uint64_t waiter_count() const;
  std::vector<LockWaiter> waiters() const;

  FencingToken next_token() const;
  /// The token for a shared grant: that of the latest exclusive grant, or a new one if the store
  /// knows none.
  FencingToken shared_token() const;
  FencingToken known_token() const;

  std::optional<int> permits() const;
  void set_permits(int permits);
  /// Removes what nobody needs any more.
  void tidy();

  /// Describes who has the lock; nothing if nobody does.
  std::optional<LockRecord> record() const;
  /// The same, with all holders and waiters.
  std::optional<LockRecord> detailed_record() const;

 private:
  bool lives(const StoredGrant& grant) const { return grant.ends > clock_.since_boot; }
  bool lapsed(const StoredGrant& grant) const;
  void send(const StoredGrant& to, LockMessage::Type message);
  std::optional<std::chrono::milliseconds> last_seen(std::string_view client) const;
  std::chrono::milliseconds life_of(std::string_view client);
  void forget_client(std::string_view client);

  Transaction& transaction_;
  const std::string_view name_;
  const ClockReading clock_;
  LockEffects& effects_;
  std::vector<StoredGrant> holders_;
  std::optional<std::chrono::milliseconds> head_ends_;
};

/// Takes the lock as far as the request allows, confirms an offer, or joins the line: what
/// lua/contend.lua does in Redis. `attempt` and `join` replace those of the request.
AcquireOutcome contend(LockLine& line, const AcquireRequest& request,
                       const ClientIdentity& identity, Attempt attempt, Join join);

}  // namespace leasehold::inline v0::sqlite
