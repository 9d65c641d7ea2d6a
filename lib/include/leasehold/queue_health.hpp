#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "leasehold/export.hpp"

namespace leasehold::inline v0 {

/// Somebody whose old view of the database keeps dead rows from being removed.
struct SnapshotHolder {
  enum class Kind {
    transaction,  ///< an open one
    prepared,     ///< one that was prepared and neither committed nor rolled back
    replication,  ///< a replication slot, or a standby that sends its feedback
  };
  Kind kind = Kind::transaction;
  int pid = 0;       ///< the server process; 0 if there is none now
  std::string name;  ///< of the application, the prepared transaction or the slot; may be empty
  std::string user;  ///< may be empty
  /// Since it began. Nothing if the server does not tell: for replication, and for transactions of
  /// other users unless ours is a member of pg_read_all_stats.
  std::optional<std::chrono::milliseconds> age;
  std::int64_t transactions = 0;  ///< begun since, in the whole server
};

/// How a queue fares, beside TaskQueue::counts().
struct QueueHealth {
  /// How long the task that is due longest has been due. Nothing if none is.
  std::optional<std::chrono::milliseconds> oldest_ready;

  /// How long ago the lease that ran out first ran out. Nothing if recovery left none.
  std::optional<std::chrono::milliseconds> oldest_expired;

  /// Rows of the table of tasks, by the server's statistics: late by a second or so, and estimates.
  /// In SQLite counted, up to 100,000. Dead ones are what updates and deletes left behind and
  /// vacuum has not removed yet.
  std::uint64_t live_rows = 0;
  std::uint64_t dead_rows = 0;

  /// Who holds vacuum back most. Always nothing in SQLite. Nothing if nobody does, or the server
  /// does not let us look.
  std::optional<SnapshotHolder> oldest_snapshot;
};

LEASEHOLD_API const char* to_string(SnapshotHolder::Kind kind) noexcept;

}  // namespace leasehold::inline v0
