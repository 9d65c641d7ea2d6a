#include "postgres_pair.hpp"

#include "await.hpp"

namespace leasehold::harness {
namespace {

PostgresServerOptions standby_options(PostgresServerOptions options, const std::string& primary) {
  options.standby_of = primary;
  return options;
}

std::string uri_of(const PostgresServer& first, const PostgresServer& second) {
  return "postgresql://postgres@127.0.0.1:" + std::to_string(first.port()) +
         ",127.0.0.1:" + std::to_string(second.port()) + "/postgres";
}

}  // namespace

PostgresPair::PostgresPair(const PostgresServerOptions& options)
    : primary_(options), standby_(standby_options(options, primary_.uri())) {
  await_caught_up();
}

std::string PostgresPair::uri() const { return uri_of(primary_, standby_); }
std::string PostgresPair::uri_standby_first() const { return uri_of(standby_, primary_); }

void PostgresPair::await_caught_up() const {
  const std::string written = primary_.run_sql("SELECT pg_current_wal_lsn()");
  await("the standby to catch up", [&]() -> std::string {
    const auto there = standby_.run_sql("SELECT pg_last_wal_replay_lsn() >= '" + written + "'");
    return there == "t" ? "" : "it has not replayed " + written;
  });
}

void PostgresPair::cut_replication() const {
  standby_.run_sql("ALTER SYSTEM SET primary_conninfo = ''; SELECT pg_reload_conf()");
  await("the replication to end", [&]() -> std::string {
    const auto receivers = standby_.run_sql("SELECT count(*) FROM pg_stat_wal_receiver");
    return receivers == "0" ? "" : "the standby still receives";
  });
}

void PostgresPair::promote() const {
  standby_.run_sql("SELECT pg_promote(wait => false)");
  await("the promotion", [&]() -> std::string {
    return standby_.run_sql("SELECT pg_is_in_recovery()") == "f" ? "" : "it is still a standby";
  });
}

}  // namespace leasehold::harness
