#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locks/lock_store.hpp"
#include "sqlite/database/database.hpp"

namespace leasehold::inline v0::sqlite {

/// When something is looked at.
struct Moment {
  static Moment now();
  std::chrono::milliseconds since_boot;  ///< judges leases
  std::chrono::microseconds wall;        ///< seeds tokens
  std::chrono::microseconds booted;      ///< the time of day then, for people
};

/// Who makes claims: the same for all of a client.
struct Claimant {
  std::string client;  ///< where it hears word: something random, '@', and its process
  std::string runner;
  std::string incarnation;
  bool persistent = false;  ///< whether the runner comes back with the same name
  std::string about;        ///< JSON: pid, host, platform
  std::chrono::milliseconds linger{0};
};

/// Somebody who holds a lock, was granted it, or vanished with it.
struct StoredClaim {
  std::string owner;
  bool confirmed = true;  ///< false: granted by the line
  char kind = 'x';        ///< x: alone; s: shared; p: one of so many permits
  std::string client;
  std::string runner;
  std::string incarnation;
  std::string about;
  std::string metadata;
  std::chrono::milliseconds ttl{0};
  std::chrono::milliseconds every{0};
  std::chrono::milliseconds granted{0};
  std::chrono::milliseconds ends{0};
  std::chrono::milliseconds gone{0};
  std::uint64_t renewals = 0;
  FencingToken token;

  bool exclusive() const { return kind == 'x'; }
  std::chrono::milliseconds last_heartbeat() const { return confirmed ? ends - ttl : granted; }
  LockRecord to_record(std::string_view name, const Moment& moment) const;
};

char kind_letter(LockKind kind, int permits);

/// What a transaction does beside its result.
struct LockEffects {
  struct Letter {
    std::string client;
    std::string message;  ///< see read_message
  };
  std::vector<Letter> letters;
  std::uint64_t evicted = 0;  ///< waiters found dead or frozen
};

std::optional<LockMessage> read_message(std::string_view text);

/// The claims of one lock within a transaction: those who have it, and the line. What is not
/// confirmed in time, or was not renewed, is dealt with here, as lua/include/line.lua does it in
/// Redis.
class LockLine {
 public:
  enum class Holder {
    none,
    exclusive,  ///< a lease or a grant that lives
    stale,      ///< a lease that ended without a release
    shared,     ///< living shared holders
  };

  LockLine(Transaction& transaction, std::string_view name, const Moment& moment,
           LockEffects& effects)
      : transaction_(transaction), name_(name), moment_(moment), effects_(effects) {}

  /// Looks at those who have the lock. Changes nothing: lapsed ones are left out.
  void look();
  /// The same, and removes what has lapsed.
  void settle();

  Holder holder() const;
  /// The exclusive or the stale one.
  const StoredClaim* current() const;
  /// The one that vanished, even if the lock was granted to others since.
  const StoredClaim* vanished() const;
  const StoredClaim* find(std::string_view owner) const;
  /// What the owner has, unless its lease has ended and the lock went to others.
  const StoredClaim* grant_of(std::string_view owner) const;
  const std::vector<StoredClaim>& holders() const { return holders_; }
  std::size_t shared_holders() const;
  const Moment& moment() const { return moment_; }
  std::string_view name() const { return name_; }

  /// Grants to as many of the next waiters as there is room for. `caller`: the client that calls
  /// for one of its waiters, which shows that it lives.
  void advance(std::string_view caller = {});
  /// When the head of the line has to have answered, if advance() has asked whether it lives.
  std::optional<std::chrono::milliseconds> answer_due() const { return answer_due_; }

  /// Makes the claim the holder, or one of those who share the lock.
  void hold(const LockClaim& claim, const Claimant& claimant, FencingToken token);
  /// Prolongs an exclusive lease as a shared one.
  void downgrade(const LockRenewal& renewal, std::chrono::milliseconds linger);
  /// Takes the lock from all who have it and tells them.
  void oust(std::string_view message);
  void remove(std::string_view owner);
  /// Stands in line, if it does not yet; returns the place.
  std::uint64_t join(const LockClaim& claim, const Claimant& claimant);
  void remove_waiter(std::string_view owner);
  /// Of one who waits.
  void note_life(std::string_view owner);
  bool is_waiting(std::string_view owner) const;
  /// Whether somebody else is next.
  bool others_wait(std::string_view owner) const;
  std::uint64_t waiter_count() const;
  std::vector<LockWaiter> waiters() const;

  FencingToken next_token() const;
  /// Of the latest exclusive grant, for those who share; a new one if it is not known.
  FencingToken shared_token() const;
  FencingToken known_token() const;

  std::optional<int> permits() const;
  void set_permits(int permits);
  /// Forgets what nobody needs any more.
  void tidy();

  /// The record for everybody who asks; nothing if nobody has the lock.
  std::optional<LockRecord> record() const;
  /// The same with all holders and waiters.
  std::optional<LockRecord> detailed_record() const;

 private:
  bool lives(const StoredClaim& claim) const { return claim.ends > moment_.since_boot; }
  bool lapsed(const StoredClaim& claim) const;
  void tell(const StoredClaim& claim, std::string_view message);
  void evict(std::string_view client);
  bool shows_life(const StoredClaim& head, std::string_view caller);

  Transaction& transaction_;
  const std::string_view name_;
  const Moment moment_;
  LockEffects& effects_;
  std::vector<StoredClaim> holders_;
  std::optional<std::chrono::milliseconds> answer_due_;
};

/// Writes a grant and its token, which are never one without the other. Two plain statements: with
/// a trigger SQLite would keep a journal for each.
void write_grant(Transaction& transaction, const LockClaim& claim, const Claimant& claimant,
                 const Moment& moment, FencingToken token);

/// Takes the lock as far as the claim allows, confirms a grant, or stands in line: what
/// lua/contend.lua does in Redis.
ClaimOutcome contend(LockLine& line, const LockClaim& claim, const Claimant& claimant);

}  // namespace leasehold::inline v0::sqlite
