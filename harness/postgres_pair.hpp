#pragma once

#include <string>

#include "postgres_server.hpp"

namespace leasehold::harness {

/// A PostgreSQL and a streaming standby of it. Commits do not wait for the standby, as is
/// PostgreSQL's default. Nobody but the test promotes the standby. For one thread at a time.
class PostgresPair {
 public:
  explicit PostgresPair(const PostgresServerOptions& options = {});

  PostgresServer& primary() { return primary_; }
  PostgresServer& standby() { return standby_; }

  /// Of both: postgresql://postgres@HOST:PORT,HOST:PORT/postgres, the primary first.
  std::string uri() const;
  /// The same with the standby first.
  std::string uri_standby_first() const;

  /// Waits until the standby has everything that is committed on the primary. Throws after two
  /// minutes.
  void await_caught_up() const;
  /// The standby receives nothing any more: what is committed from now on is lost by promote().
  void cut_replication() const;
  /// Makes the standby a primary, and returns when it accepts writes. Kill or stop the other one
  /// before, unless two primaries are wanted.
  void promote() const;

 private:
  PostgresServer primary_;
  PostgresServer standby_;
};

}  // namespace leasehold::harness
