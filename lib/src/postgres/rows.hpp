#pragma once

#include <pqxx/pqxx>
#include <string_view>
#include <vector>

#include "leasehold/task.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {

// What the statements of sql/queries reply.

LeasedTask to_leased_task(const pqxx::row& row);          ///< lease.sql
TaskRecord to_task_record(const pqxx::row& row);          ///< get.sql, list.sql
RecoveredTask to_recovered(const pqxx::row& row);         ///< recover.sql
QueueHealth to_health(const pqxx::row& row);              ///< health.sql
SnapshotHolder to_snapshot_holder(const pqxx::row& row);  ///< oldest_snapshot.sql
TaskId to_id(const pqxx::row& row);
std::vector<TaskId> to_ids(const pqxx::result& result);
bool was_completed(const pqxx::row& row);  ///< lease_and_complete.sql: or else it was leased

}  // namespace leasehold::inline v0::postgres
