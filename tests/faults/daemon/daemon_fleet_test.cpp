// The whole of it: workers that are killed all the time, one that is paused past its leases,
// daemons of which one is paused, a PostgreSQL that is restarted. Every effect exactly once.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "harness/postgres_server.hpp"
#include "harness/temp_dir.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/leaseholdd.hpp"
#include "tests/support/pause_process.hpp"
#include "tests/support/postgres_canary.hpp"
#include "tests/support/sqlite_connection.hpp"
#include "tests/support/task_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int most_kills = 60;
constexpr auto lease = 2'000ms;
constexpr auto round_interval = 1'000ms;
constexpr auto fleet_patience = 240s;

class DaemonFleetTest : public ::testing::TestWithParam<StoreKind> {
 public:
  static constexpr StoreKind server_kind = StoreKind::postgres;

 protected:
  void SetUp() override {
    if (in_postgres()) server = std::make_unique<PostgresServer>();
    migrate(uri());
    if (!in_postgres()) outside = connect_to(path());
    // No constraint: an effect that happened twice shall be seen, not prevented. The trigger sees
    // each lease that is taken back, whoever does it.
    sql(in_postgres() ? R"(
      CREATE TABLE ledger (task bigint, worker bigint);
      CREATE TABLE refusals (task bigint);
      CREATE TABLE requeued (expired timestamptz, taken_back timestamptz);
      CREATE FUNCTION note_requeue() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        INSERT INTO public.requeued VALUES (OLD.lease_expiry, clock_timestamp());
        RETURN NULL;
      END $$;
      CREATE TRIGGER note_requeue AFTER UPDATE ON leasehold.tasks FOR EACH ROW
        WHEN (OLD.state = 'leased' AND NEW.crash_count > OLD.crash_count)
        EXECUTE FUNCTION note_requeue();)"
                      : R"(
      CREATE TABLE ledger (task bigint, worker bigint);
      CREATE TABLE refusals (task bigint);
      CREATE TABLE requeued (expired bigint, taken_back bigint);
      CREATE TRIGGER note_requeue AFTER UPDATE ON leasehold.tasks
        WHEN OLD.state = 'leased' AND NEW.crash_count > OLD.crash_count
      BEGIN
        INSERT INTO requeued VALUES (OLD.lease_expiry, NEW.updated_at);
      END;)");
    TaskQueue{uri()}.enqueue(
        std::vector<NewTask>(std::size_t(tasks), {.type = "ledger", .max_attempts = 1'000'000}));
  }

  static bool in_postgres() { return GetParam() == StoreKind::postgres; }
  std::string path() const { return (dir.path() / "tasks.db").string(); }
  std::string uri() const { return server ? server->uri() : "sqlite:" + path(); }
  std::string sql(const std::string& statements) const {
    return server ? server->run_sql(statements) : run_sql(outside.get(), statements);
  }
  int count(const std::string& what) const {
    return std::stoi(sql("SELECT count(*) FROM " + what));
  }

  std::unique_ptr<Process> start_worker() const {
    return std::make_unique<Process>(std::vector<std::string>{
        std::string(LEASEHOLD_TEST_PROGRAMS) + "/worker_program", uri(),
        "lease=" + std::to_string(lease.count()), "concurrency=4", "prefetch=16", "work=30"});
  }
  std::unique_ptr<Leaseholdd> start_daemon() const {
    return std::make_unique<Leaseholdd>(
        LEASEHOLDD,
        std::vector<std::string>{"--database", uri(), "--round-interval",
                                 std::to_string(round_interval.count()) + "ms", "--max-crashes",
                                 "1000000", "--command-timeout", "5s"});
  }

  /// Kills the oldest worker, and starts another.
  void replace_one() {
    workers.front()->kill(SIGKILL);
    workers.erase(workers.begin());
    workers.push_back(start_worker());
    ++kills;
  }

  /// Pauses the oldest worker until what it had is taken back, and lets it go on.
  void pause_one_past_its_leases() {
    std::rotate(workers.begin(), workers.begin() + 1, workers.end());  // not the next to be killed
    Process& worker = *workers.back();
    pause_outside_transactions(worker, uri());
    // What it was just completing when it was paused stays locked until its transaction ends.
    const std::string its =
        "(SELECT 1 FROM leasehold.tasks WHERE state = 'leased' AND leased_by LIKE '%\\_" +
        std::to_string(worker.pid()) + "' ESCAPE '\\'" +
        (in_postgres() ? " FOR NO KEY UPDATE SKIP LOCKED" : "") + ") AS its";
    EXPECT_TRUE(eventually([&] { return count(its) == 0; }, fleet_patience));
    worker.resume();
  }

  // A file is synced for each effect.
  const int tasks = in_postgres() ? 5'000 : 2'000;
  std::unique_ptr<PostgresServer> server;
  const TempDir dir;
  SqliteConnection outside;
  std::vector<std::unique_ptr<Process>> workers;
  std::vector<std::unique_ptr<Leaseholdd>> daemons;
  int kills = 0;
};
ON_STORES_BETWEEN_PROCESSES(DaemonFleetTest);

TEST_P(DaemonFleetTest, EveryEffectExactlyOnceWhateverDies) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  std::uniform_int_distribution<int> pause_ms{100, 300};

  std::optional<PostgresCanary> canary;
  if (in_postgres()) canary.emplace(uri());
  for (int i = 0; i < 3; ++i) daemons.push_back(start_daemon());
  for (int i = 0; i < 4; ++i) workers.push_back(start_worker());
  const auto kill_until = [&](const auto& reached) {
    const auto give_up = steady_clock::now() + fleet_patience;
    while (!reached()) {
      ASSERT_LT(steady_clock::now(), give_up) << count("ledger") << " of " << tasks << " done";
      std::this_thread::sleep_for(milliseconds{pause_ms(random)});
      if (kills < most_kills) replace_one();
    }
  };

  kill_until([&] { return kills >= 5 && count("ledger") > tasks / 10; });
  pause_outside_transactions(daemons[0]->process(), uri());
  pause_one_past_its_leases();

  kill_until([&] { return kills >= 10 && count("ledger") > tasks / 4; });
  const auto clock = [&] { return in_postgres() ? sql("SELECT clock_timestamp()") : ""; };
  const std::string down = clock();
  if (in_postgres()) server->restart(Data::kept);
  ASSERT_TRUE(eventually(
      [&] {
        return daemons[1]->get("/readyz").status == 200 && daemons[2]->get("/readyz").status == 200;
      },
      fleet_patience));
  const std::string up = clock();
  daemons[0]->process().resume();

  kill_until([&] { return kills >= 20 && count("ledger") > tasks / 2; });
  // It takes a handler that is at work, which one that was just started may not have.
  for (int i = 0; i < 10 && count("refusals") == 0; ++i) pause_one_past_its_leases();
  kill_until([&] { return count("leasehold.tasks WHERE state <> 'completed'") == 0; });

  EXPECT_EQ(sql("SELECT count(*), count(DISTINCT task) FROM ledger"),
            std::to_string(tasks) + "|" + std::to_string(tasks));
  EXPECT_GT(count("refusals"), 0) << "no stale completion was tried";
  EXPECT_GT(count("requeued"), 0);
  std::cout << "kills " << kills << ", leases taken back " << count("requeued") << ", refused "
            << count("refusals") << "\n";
  RecordProperty("kills", kills);
  if (!canary) return;  // what is in time on a file: daemon_rounds_test

  // What expired, or waited to be taken back, while PostgreSQL was away is not the daemons' fault,
  // nor is a machine that stood still.
  canary->stop();
  const auto slowest =
      std::stod(sql("SELECT max(extract(epoch FROM taken_back - expired) - " +
                    canary->standstill("expired", "taken_back") +
                    ") FROM requeued WHERE taken_back < '" + down + "' OR expired > '" + up + "'"));
  EXPECT_LT(slowest, std::chrono::duration<double>(round_interval + 1s).count());
  RecordProperty("slowest_requeue_ms", static_cast<int>(slowest * 1'000));
  std::cout << "slowest requeue " << slowest << " s\n";
}

}  // namespace
}  // namespace leasehold::testing
