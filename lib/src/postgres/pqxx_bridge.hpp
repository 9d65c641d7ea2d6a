#pragma once

#include <memory>
#include <pqxx/pqxx>
#include <string>

#include "postgres/params.hpp"

// The only place that knows how libpqxx 6.4 and 7 differ.
namespace leasehold::inline v0::postgres {

/// Connects. The connection never reconnects by itself.
std::unique_ptr<pqxx::connection> connect(const std::string& conninfo);

/// Runs one statement with parameters.
pqxx::result execute(pqxx::transaction_base& transaction, const std::string& sql,
                     const Params& params);

/// Runs a statement that the connection has prepared.
pqxx::result execute_prepared(pqxx::transaction_base& transaction, const std::string& name,
                              const Params& params);

/// The SQLSTATE of an exception of libpqxx, or empty.
std::string sqlstate_of(const std::exception& error);

}  // namespace leasehold::inline v0::postgres
