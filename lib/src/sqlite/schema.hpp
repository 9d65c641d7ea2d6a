#pragma once

#include "sqlite/database.hpp"

namespace leasehold::sqlite {

/// Throws ServerRefused if another program made the database. Changes nothing.
void check_ours(Connection& connection, const std::string& where);

/// Makes or updates the tables of a kind of store, and ends the leases of an earlier boot.
void install(Connection& connection, const OpenOptions& options, const std::string& where);

}  // namespace leasehold::sqlite
