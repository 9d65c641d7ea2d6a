#pragma once

#include <pqxx/pqxx>
#include <string_view>
#include <vector>

#include "leasehold/task_record.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {

// The replies to the statements of sql/queries.

LeasedTask to_leased_task(const pqxx::row& row);          ///< lease
TaskRecord to_task_record(const pqxx::row& row);          ///< get, list
RecoveredTask to_recovered(const pqxx::row& row);         ///< recover
QueueHealth to_health(const pqxx::row& row);              ///< health
SnapshotHolder to_snapshot_holder(const pqxx::row& row);  ///< oldest_snapshot
TaskId to_id(const pqxx::row& row);
std::vector<TaskId> to_ids(const pqxx::result& result);
/// lease_and_complete: whether this row is a completed task, or else one that was leased.
bool was_completed(const pqxx::row& row);

}  // namespace leasehold::inline v0::postgres
