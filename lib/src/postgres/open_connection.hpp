#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "postgres/postgres_uri.hpp"

struct pg_conn;

namespace leasehold::inline v0::postgres {

struct CloseConnection {
  void operator()(pg_conn* connection) const noexcept;
};
using LibpqConnection = std::unique_ptr<pg_conn, CloseConnection>;

/// Connects to the first host that accepts us. Begins with host number `host`, and sets it to the
/// one that did. Throws Unavailable or ServerRefused.
LibpqConnection open_connection(const PostgresUri& uri, std::size_t& host);

/// The SQLSTATE in a message of libpq that was made with PQERRORS_VERBOSE, or empty. It stands
/// after the severity, whatever the language: "FATAL:  28P01: …".
std::string_view sqlstate_in(std::string_view verbose_message);

}  // namespace leasehold::inline v0::postgres
