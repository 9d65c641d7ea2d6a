#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "duel.hpp"
#include "harness/postgres_server.hpp"
#include "harness/process.hpp"
#include "harness/temp_dir.hpp"

namespace leasehold::bench {

/// The settings of the server that all cases use, for the report. It is as durable as in
/// production.
harness::PostgresServerOptions server_options(int max_connections = 200);
std::string server_settings();

/// The private database of one case, with our tables and those of the reference. Dropped at the
/// end.
class BenchDatabase {
 public:
  /// Commits wait for the disk, or not.
  enum class Commits { wait, do_not_wait };

  explicit BenchDatabase(harness::PostgresServer& server, Commits commits = Commits::wait);
  ~BenchDatabase();
  BenchDatabase(const BenchDatabase&) = delete;
  BenchDatabase& operator=(const BenchDatabase&) = delete;

  std::string uri() const { return server_.uri(name_); }

  /// Makes our tables in one more schema.
  void add_schema(const std::string& schema) const;

  /// Runs a file of bench/sql by psql. Returns the rows, columns separated by |.
  using Variables = std::map<std::string, std::string>;
  std::string run(const std::string& file, const Variables& variables = {}) const;
  /// The same for a file that says `\timing on`: the seconds its last statement took.
  double seconds_of(const std::string& file, const Variables& variables) const;

  /// Tops up a schema with ready tasks of so many types.
  void fill(const std::string& schema, std::size_t rows, std::size_t types = 1) const;
  double wal_bytes() const;

  struct Script {
    std::string file;
    std::size_t clients = 1;
    std::size_t tasks = 1;  ///< done by each run of the script
  };
  /// Runs a script of bench/sql by pgbench for whole seconds, at least one.
  Work pgbench(const Script& script, std::chrono::milliseconds time) const;

  /// Runs a script of bench/sql by one client of pgbench, so many times a second at random moments.
  /// Returns how long each run took in us, sorted.
  std::vector<double> latencies_us(const std::string& file, int per_second,
                                   std::chrono::milliseconds time) const;

  /// A transaction that stays open until this is destroyed.
  class HeldSnapshot {
   public:
    explicit HeldSnapshot(const BenchDatabase& database);
    ~HeldSnapshot();
    HeldSnapshot(const HeldSnapshot&) = delete;
    HeldSnapshot& operator=(const HeldSnapshot&) = delete;

   private:
    harness::Process psql_;
  };

 private:
  std::string run_pgbench(const std::string& file, std::chrono::milliseconds time,
                          const std::vector<std::string>& options) const;

  harness::PostgresServer& server_;
  const std::string name_;
  harness::TempDir dir_;
};

}  // namespace leasehold::bench
