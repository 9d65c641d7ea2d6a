#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "leasehold/export.hpp"

namespace leasehold::inline v0 {

/// A transaction or replication slot whose old snapshot keeps vacuum from removing dead rows.
struct SnapshotHolder {
  enum class Kind {
    transaction,  ///< an open transaction
    prepared,     ///< a prepared transaction that was neither committed nor rolled back
    replication,  ///< a replication slot, or a standby with hot_standby_feedback
  };
  Kind kind = Kind::transaction;
  int pid = 0;       ///< the server process, or 0 if there is none
  std::string name;  ///< of the application, the prepared transaction or the slot; may be empty
  std::string user;  ///< may be empty
  /// Since it began. Not known for replication, nor for transactions of other users unless ours is
  /// a member of pg_read_all_stats.
  std::optional<std::chrono::milliseconds> age;
  std::int64_t transactions = 0;  ///< begun since then on the whole server
};

/// The state of a queue, in addition to TaskQueue::counts().
struct QueueHealth {
  /// How long the oldest task that is due has been waiting. Empty if no task is due.
  std::optional<std::chrono::milliseconds> oldest_ready;

  /// Age of the oldest expired lease. Empty if recovery has left none.
  std::optional<std::chrono::milliseconds> oldest_expired;

  /// Rows of the task table. In PostgreSQL these are estimates from the server's statistics, about
  /// a second old; dead rows are those that updates and deletes left behind and vacuum has not
  /// removed yet. In SQLite live rows are counted, up to 100,000, and dead ones are always 0.
  std::uint64_t live_rows = 0;
  std::uint64_t dead_rows = 0;

  /// Expired leases that were taken back since the tables were created, by whichever process:
  /// workers, daemons or Recovery. Their tasks were pending again, or dead.
  std::uint64_t recovered_requeued = 0;
  std::uint64_t recovered_dead = 0;

  /// What holds vacuum back most. Empty if nothing does, if the server does not let us look, and
  /// always in SQLite.
  std::optional<SnapshotHolder> oldest_snapshot;
};

LEASEHOLD_API const char* to_string(SnapshotHolder::Kind kind) noexcept;

}  // namespace leasehold::inline v0
