#pragma once

#include "sqlite/database/database.hpp"
#include "support/internal_api.hpp"

namespace leasehold::inline v0::sqlite {

/// The number at the beginning of a migration's name.
LEASEHOLD_INTERNAL_API int version_of(const EmbeddedText& migration);

/// Throws ServerRefused if another program made the database and we have no tables in it. Changes
/// nothing.
void check_ours(Connection& connection, const OpenOptions& options, const std::string& where);

/// Makes or updates the tables of a kind of store, and ends the grants or leases of an earlier
/// boot. Returns the version of the tables that were there, 0 for none.
int install(Connection& connection, const OpenOptions& options, const std::string& where);

}  // namespace leasehold::inline v0::sqlite
