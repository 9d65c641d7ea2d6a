#pragma once

#include <optional>
#include <pqxx/pqxx>
#include <string_view>
#include <vector>

#include "leasehold/task_record.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {

// The replies to the statements of sql/queries.

LeasedTask to_leased_task(const pqxx::row& row);  ///< lease
/// complete_and_lease: the lease of a completed task, or none if the row is one of lease.
std::optional<LeaseName> to_completed(const pqxx::row& row);
/// lease: whether nothing was leased because too many others are leasing.
bool is_refused_place(const pqxx::row& row);
/// lease: whether there were more tasks, but the statement may not lease so many.
bool was_cut_short(const pqxx::row& row);
StoredTask to_stored_task(const pqxx::row& row);  ///< get, list
/// recover; and look_after, whose columns follow another
RecoveredTask to_recovered(const pqxx::row& row, int first_column = 0);
ExpiredLease to_expired(const pqxx::row& row);            ///< recover
QueueHealth to_health(const pqxx::row& row);              ///< health
SnapshotHolder to_snapshot_holder(const pqxx::row& row);  ///< oldest_snapshot
/// extend, complete, fail, release
LeaseName to_lease_name(const pqxx::row& row);
std::vector<LeaseName> to_lease_names(const pqxx::result& result);

}  // namespace leasehold::inline v0::postgres
