#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace leasehold::inline v0 {

/// How a TaskQueue uses PostgreSQL.
struct PostgresOptions {
  /// The most connections that the queue opens, 1 to 1,000. They are opened when needed and shared
  /// by all threads; a call that finds all of them in use waits for one. Each costs the server a
  /// process. Default 4.
  std::size_t connections = 4;

  /// How long to wait for a connection to be established, 1 ms to 1 h. libpq counts in whole
  /// seconds and waits at least 2. Default 5 s.
  std::chrono::milliseconds connect_timeout{5'000};

  /// How long to wait for a free connection (then Unavailable is thrown), and after that for the
  /// reply (then the connection is closed and OutcomeUnknown is thrown). 1 ms to 1 h. Default 30 s.
  std::chrono::milliseconds command_timeout{30'000};

  /// The schema that contains the tables: a letter or _, followed by letters, digits or _, at most
  /// 63 characters. Default "leasehold".
  std::string schema = "leasehold";
};

}  // namespace leasehold::inline v0
