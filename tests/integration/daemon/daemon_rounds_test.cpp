// What leaseholdd does, round after round: expired leases are taken back, old tasks removed.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/daemon/daemon_fixture.hpp"
#include "tests/support/postgres_canary.hpp"
#include "tests/support/starvation.hpp"

namespace leasehold::testing {
namespace {

class DaemonRoundsTest : public DaemonFixture {
 protected:
  /// The metric of what all processes have recovered.
  static std::string recovered(const std::string& outcome) {
    return "leasehold_recovered_tasks_total{queue=\"leasehold\",outcome=\"" + outcome + "\"}";
  }
  /// How many tasks this daemon has requeued.
  static int recovered_itself(const Leaseholdd& daemon) {
    return daemon.status().at("queues").at(0).at("recovered").at("requeued");
  }
};
ON_STORES_BETWEEN_PROCESSES(DaemonRoundsTest);

/// What only a server can do, or can be asked.
class ServerRoundsTest : public DaemonFixture {};
ON_STORES(ServerRoundsTest, StoreKind::postgres);

/// What is about files.
class FileRoundsTest : public DaemonFixture {};
ON_STORES(FileRoundsTest, StoreKind::sqlite_file);

TEST_P(DaemonRoundsTest, ExpiredLeasesAreTakenBackWithinTheRoundIntervalAndASecond) {
  std::optional<PostgresCanary> canary;
  if (in_postgres()) canary.emplace(uri());
  StallWatch stalls{100ms};
  auto daemon = start({"--round-interval", "500ms"});
  for (int i = 1; i <= 3; ++i) {
    insert_leased(1, 300ms);
    EXPECT_TRUE(eventually([&] { return count_is("pending", i); }, patience));
  }
  // The store's own clock says when: the end of the lease, and the recovery.
  const std::string delay = in_postgres() ? "extract(epoch FROM updated_at - created_at) - 0.3"
                                          : "(updated_at - created_at) / 1e6 - 0.3";
  EXPECT_GE(std::stod(sql("SELECT max(" + delay + ") FROM leasehold.tasks")), 0);
  std::string standstill =
      std::to_string(std::chrono::duration<double>(stalls.time_lost()).count());
  if (canary) {
    canary->stop();
    standstill = canary->standstill("created_at + interval '0.3 s'", "updated_at");
  }
  EXPECT_LT(std::stod(sql("SELECT max(" + delay + " - " + standstill + ") FROM leasehold.tasks")),
            0.5 + 1.0);
  EXPECT_TRUE(eventually([&] { return daemon.metric(recovered("requeued")) == 3; }, patience));
  EXPECT_EQ(daemon.metric("leasehold_recovery_delay_seconds_count{queue=\"leasehold\"}"), 3);
  EXPECT_TRUE(eventually([&] { return daemon.logged("leases recovered") == 3; }, patience))
      << daemon.log();
  EXPECT_EQ(daemon.logged("requeued=1 dead=0 took_ms="), 3U) << daemon.log();
  stop(daemon);
}

TEST_P(DaemonRoundsTest, ATaskThatCrashesTooOftenDies) {
  insert_expired(1);
  auto daemon = start({"--max-crashes", "1"});
  EXPECT_TRUE(eventually([&] { return count_is("dead", 1); }, patience));
  EXPECT_TRUE(eventually([&] { return daemon.metric(recovered("dead")) == 1; }, patience));
}

TEST_P(DaemonRoundsTest, WhatWorkersRecoverIsShownByEveryDaemon) {
  TaskQueue worker{uri()};
  insert_expired(3);
  EXPECT_TRUE(eventually(
      [&] {
        EXPECT_TRUE(worker.lease({.types = {"other"}}).empty());
        return worker.stats().recovered == 3;
      },
      patience));
  const auto first = start();
  const auto second = start();
  for (const Leaseholdd* daemon : {&first, &second}) {
    const auto requeued = [&] { return daemon->metric(recovered("requeued")); };
    EXPECT_TRUE(eventually([&] { return requeued() == 3; }, patience)) << requeued();
    EXPECT_EQ(daemon->metric(recovered("dead")), 0);
    EXPECT_EQ(recovered_itself(*daemon), 0);
    EXPECT_EQ(daemon->status().at("queues").at(0).at("measured").at("recovered").at("requeued"), 3);
  }
}

TEST_P(DaemonRoundsTest, OnceDoesOneRoundAndSaysWhetherItWorked) {
  insert_expired(3);
  Finished done = once({});
  EXPECT_EQ(done.status.code, 0) << done.output;
  EXPECT_TRUE(contains(done.output, "round done queue=leasehold requeued=3 dead=0 removed=0"))
      << done.output;
  EXPECT_TRUE(count_is("pending", 3));

  done = once({"--queue", "good", "--queue", "bad " + broken()});
  EXPECT_EQ(done.status.code, 1) << done.output;
  EXPECT_TRUE(contains(done.output, "round done queue=good")) << "the others are not held back";
  EXPECT_TRUE(contains(done.output, "round failed, will keep trying queue=bad")) << done.output;
  EXPECT_TRUE(contains(done.output, "error=\"" + what_is_broken())) << done.output;
  EXPECT_EQ(contains(done.output, "hint=\"run migrate\""), in_postgres()) << done.output;
}

TEST_P(FileRoundsTest, MemoryIsRefused) {
  const auto refused = run_leaseholdd(LEASEHOLDD, {"--once", "--database", "sqlite::memory:x"});
  EXPECT_NE(refused.status.code, 0);
  EXPECT_TRUE(contains(refused.output, "must be a file")) << refused.output;
}

TEST_P(FileRoundsTest, AFileThatIsBusyIsTriedAgainAndThatIsCounted) {
  auto daemon = start({"--command-timeout", "200ms"});
  wait_for_round(daemon);
  const std::string retries = "leasehold_store_retries_total{queue=\"leasehold\"}";
  const std::string failed = "leasehold_rounds_total{queue=\"leasehold\",outcome=\"failed\"}";
  const auto other = connect();
  const OwnTransaction lock{other.get()};
  lock.execute("BEGIN IMMEDIATE");
  const double before = daemon.metric(failed);
  EXPECT_TRUE(eventually([&] { return daemon.metric(failed) > before; }, patience)) << daemon.log();
  lock.execute("COMMIT");
  wait_for_round(daemon);
  EXPECT_GT(daemon.metric(retries), 0);
  stop(daemon);
}

TEST_P(DaemonRoundsTest, ThreeDaemonsTakeEachLeaseBackOnce) {
  constexpr int tasks = 5'000;
  std::vector<std::unique_ptr<Leaseholdd>> daemons;
  for (int i = 0; i < 3; ++i) {
    daemons.push_back(std::make_unique<Leaseholdd>(
        LEASEHOLDD, std::vector<std::string>{"--database", uri(), "--round-interval", "50ms"}));
  }
  for (const auto& daemon : daemons) wait_for_round(*daemon);
  insert_expired(tasks);
  EXPECT_TRUE(eventually([&] { return count_is("pending", tasks); }, 60s));
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks WHERE crash_count <> 1 OR version <> 2"),
            "0");
  // What each has counted adds up to what happened.
  const auto sum = [&] {
    int all = 0;
    for (const auto& daemon : daemons) all += recovered_itself(*daemon);
    return all;
  };
  EXPECT_TRUE(eventually([&] { return sum() == tasks; }, patience)) << sum();
  for (const auto& daemon : daemons) {
    wait_for_round(*daemon);
    EXPECT_TRUE(
        eventually([&] { return daemon->metric(recovered("requeued")) == tasks; }, patience))
        << daemon->metric(recovered("requeued"));
    EXPECT_EQ(daemon->metric("leasehold_rounds_total{queue=\"leasehold\",outcome=\"failed\"}"), 0)
        << daemon->log();
  }
  EXPECT_EQ(sum(), tasks) << "none twice";
}

TEST_P(DaemonRoundsTest, FinishedTasksAreRemovedWhenTheyAreOldEnough) {
  for (const char* state : {"completed", "cancelled", "dead"}) {
    for (const auto age : {1h, 30h, 200h}) insert_finished(1500, state, age);
  }
  auto daemon =
      start({"--retain-completed", "2h", "--retain-cancelled", "2d", "--retain-dead", "forever"});
  EXPECT_TRUE(eventually([&] { return count_is("completed", 1500) && count_is("cancelled", 3000); },
                         patience));
  wait_for_round(daemon);
  EXPECT_TRUE(count_is("completed", 1500));
  EXPECT_TRUE(count_is("cancelled", 3000));
  EXPECT_TRUE(count_is("dead", 4500)) << "for ever";
  const auto removed = [&](const char* state) {
    return daemon.metric("leasehold_removed_tasks_total{queue=\"leasehold\",state=\"" +
                         std::string(state) + "\"}");
  };
  EXPECT_EQ(removed("completed"), 3000);
  EXPECT_EQ(removed("cancelled"), 1500);
  EXPECT_EQ(removed("dead"), 0);
}

TEST_P(ServerRoundsTest, AMountainOfFinishedTasksDoesNotHoldBackRecovery) {
  insert_finished(200'000, "completed", 72h);
  // Even if we are starved for seconds, some of it is left.
  sql("CREATE FUNCTION leasehold.take_time() RETURNS trigger LANGUAGE plpgsql AS $$ "
      "BEGIN PERFORM pg_sleep(0.05); RETURN NULL; END $$;"
      "CREATE TRIGGER take_time BEFORE DELETE ON leasehold.finished_completed_other "
      "EXECUTE FUNCTION leasehold.take_time()");
  auto daemon = start({"--round-interval", "100ms"});
  EXPECT_TRUE(eventually([&] { return daemon.logged("finished tasks removed") >= 3; }, patience))
      << "in several rounds\n"
      << daemon.log();
  insert_expired(1);
  EXPECT_TRUE(eventually([&] { return daemon.logged("leases recovered") == 1; }, patience));
  EXPECT_NE(count("state = 'completed'"), 0) << "the mountain is not gone yet";
}

TEST_P(DaemonRoundsTest, SeveralQueuesOneOfThemBroken) {
  auto daemon =
      start({"--queue", "alpha " + also("alpha"), "--queue", "beta " + also("beta"), "--queue",
             "broken " + broken(), "--queue", "away database=postgresql://127.0.0.1:1/x"});
  open("beta").enqueue({.type = "b"});
  for (const auto* queue : {"alpha", "beta"}) {
    wait_for_round(daemon, queue);
    EXPECT_EQ(daemon.metric("leasehold_database_up{queue=\"" + std::string(queue) + "\"}"), 1);
  }
  EXPECT_TRUE(eventually(
      [&] {
        return daemon.metric("leasehold_tasks{queue=\"beta\",type=\"b\",state=\"pending\"}") == 1;
      },
      patience));
  for (const std::string queue : {"broken", "away"}) {
    EXPECT_TRUE(eventually(
        [&] {
          return daemon.metric("leasehold_rounds_total{queue=\"" + queue +
                               "\",outcome=\"failed\"}") >= 1;
        },
        patience));
  }
  EXPECT_EQ(daemon.metric("leasehold_database_up{queue=\"broken\"}"), 0);
  EXPECT_EQ(daemon.metric("leasehold_dead_tuples{queue=\"broken\"}"), -1)
      << "nothing is known of it";
  const auto ready = daemon.get("/readyz");
  EXPECT_EQ(ready.status, 503);
  EXPECT_TRUE(contains(ready.body, "queue broken: the last round failed: " + what_is_broken()))
      << ready.body;
  EXPECT_EQ(contains(ready.body, "run migrate"), in_postgres()) << ready.body;
  EXPECT_TRUE(contains(ready.body, "queue away: ")) << ready.body;
  EXPECT_FALSE(contains(ready.body, "queue beta")) << ready.body;

  // Said once, and once more when it is over; although it was tried many times.
  EXPECT_TRUE(eventually(
      [&] {
        return daemon.metric("leasehold_rounds_total{queue=\"broken\",outcome=\"failed\"}") >= 5;
      },
      patience));
  EXPECT_EQ(daemon.logged("round failed, will keep trying queue=broken"), 1U) << daemon.log();
  mend();
  EXPECT_TRUE(
      eventually([&] { return daemon.logged("round works again queue=broken") == 1; }, patience))
      << daemon.log();
  EXPECT_TRUE(
      eventually([&] { return !contains(daemon.get("/readyz").body, "broken"); }, patience));
  stop(daemon);
}

TEST_P(ServerRoundsTest, TheRightsThatTheGuideNamesSuffice) {
  std::string grants;
  std::istringstream lines(read_source("docs/operations.md"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("GRANT ")) grants += line + "\n";
  }
  ASSERT_TRUE(contains(grants, "DELETE ON leasehold.tasks")) << grants;
  sql("DROP ROLE IF EXISTS leaseholdd; CREATE ROLE leaseholdd LOGIN;\n" + grants);
  insert_finished(1, "completed", 48h);
  insert_expired(2);
  const std::string plain = uri_as("leaseholdd");
  const Finished done = run_leaseholdd(LEASEHOLDD, {"--once", "--database", plain});
  EXPECT_EQ(done.status.code, 0) << done.output;
  EXPECT_TRUE(contains(done.output, "requeued=2 dead=0 removed=1")) << done.output;
  sql("DROP OWNED BY leaseholdd");
  const Finished without = run_leaseholdd(LEASEHOLDD, {"--once", "--database", plain});
  EXPECT_EQ(without.status.code, 1) << without.output;
  EXPECT_TRUE(contains(without.output, "docs/operations.md")) << without.output;
  sql("DROP ROLE leaseholdd");
}

TEST_P(DaemonRoundsTest, SigtermAndSigintFinishTheRoundAndLeave) {
  for (const int signal : {SIGTERM, SIGINT}) {
    auto daemon = start();
    wait_for_round(daemon);
    daemon.process().kill(signal);
    const auto end = daemon.process().wait(patience);
    ASSERT_TRUE(end) << daemon.log();
    EXPECT_TRUE(end->success()) << daemon.log();
    EXPECT_TRUE(contains(daemon.log(), "stopping signal=")) << daemon.log();
    EXPECT_TRUE(contains(daemon.log(), " stopped\n")) << daemon.log();
  }
}

}  // namespace
}  // namespace leasehold::testing
