#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "locks/lock_store.hpp"
#include "sqlite/database/database.hpp"

namespace leasehold::inline v0::sqlite {

/// The machine's clocks, read together.
struct ClockReading {
  static ClockReading now();
  std::chrono::milliseconds since_boot;  ///< decides when grants end
  std::chrono::microseconds wall;        ///< seeds tokens
  std::chrono::microseconds booted;      ///< time of day of the boot, to show times to people
};

/// What a client writes into its rows about itself.
struct ClientIdentity {
  std::string client;  ///< where it hears messages: a random name, '@', and its process
  std::string runner;
  std::string incarnation;
  bool persistent = false;  ///< whether the runner comes back under the same name
  std::string about;        ///< JSON: pid, host, platform
  std::chrono::milliseconds linger{0};
};

/// A grant as the table has it: held, offered by the line, or left by a holder that has expired.
struct StoredGrant {
  std::string owner;
  bool confirmed = true;  ///< false: an offer
  char kind = 'x';        ///< x: exclusive; s: shared; p: one of so many permits
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
  LockRecord to_record(std::string_view name, const ClockReading& clock) const;
};

char kind_letter(LockKind kind, int permits);

/// A row of lock_sql::holders.
StoredGrant read_grant(const Statement& row);

/// A row of lock_sql::waiters.
LockWaiter read_waiter(const Statement& row, const ClockReading& clock);

/// Writes a grant and its token, which belong together. These are two plain statements, because
/// with a trigger SQLite would keep a journal for each.
void write_grant(Transaction& transaction, const AcquireRequest& request,
                 const ClientIdentity& identity, const ClockReading& clock, FencingToken token);

/// Makes sure that the store remembers at least this token for the name.
void keep_token(Transaction& transaction, std::string_view name, FencingToken token);

}  // namespace leasehold::inline v0::sqlite
