// What leaseholdd does, round after round: the real program on real stores.
#include <gtest/gtest.h>

#include <fstream>
#include <leasehold/locks.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "every_store_fixture.hpp"
#include "sqlite/database/machine_clock.hpp"
#include "tests/support/leaseholdd.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/postgres_canary.hpp"
#include "tests/support/redis_server.hpp"
#include "tests/support/starvation.hpp"

namespace leasehold {
namespace {

using testing::contains;
using testing::Finished;
using testing::Leaseholdd;

constexpr auto patience = 30s;

class DaemonRoundsTest : public EveryStoreTest {
 protected:
  static Leaseholdd start(std::vector<std::string> arguments = {},
                          std::map<std::string, std::string> env = {}) {
    if (!env.contains("LEASEHOLD_DATABASE")) env["LEASEHOLD_DATABASE"] = uri();
    if (!env.contains("LEASEHOLD_ROUND_INTERVAL")) env["LEASEHOLD_ROUND_INTERVAL"] = "200ms";
    return Leaseholdd(LEASEHOLDD, std::move(arguments), std::move(env));
  }
  static Finished once(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--once", "--database", uri()});
    return testing::run_leaseholdd(LEASEHOLDD, std::move(arguments));
  }

  /// Makes tasks whose worker was killed, and whose lease ends after this time.
  static void insert_leased(int number, std::chrono::milliseconds ends_after) {
    if (in_postgres()) {
      sql(up_to(number) +
          "INSERT INTO leasehold.tasks (type, payload, state, version, attempts, leased_by, "
          "                             lease_expiry) "
          "SELECT 't', '{}', 'leased', 1, 1, 'crashed', now() + interval '" +
          std::to_string(ends_after.count()) + " ms' FROM numbers");
      return;
    }
    const std::string now = seconds_ago(0);
    sql(up_to(number) +
        "INSERT INTO leasehold.tasks (type, payload, state, version, attempts, leased_by, "
        "                             lease_deadline, run_at, created_at, updated_at) "
        "SELECT 't', '{}', 'leased', 1, 1, 'crashed', " +
        std::to_string((sqlite::since_boot() + ends_after).count()) + ", " + now + ", " + now +
        ", " + now + " FROM numbers");
  }
  static void insert_expired(int number) { insert_leased(number, -1s); }

  static void insert_finished(int number, const std::string& state, std::chrono::hours age) {
    const std::string then = seconds_ago(std::chrono::seconds{age}.count());
    sql(up_to(number) +
        "INSERT INTO leasehold.tasks (type, payload, state, finished_at, run_at, created_at, "
        "                             updated_at) "
        "SELECT 't', '{}', '" +
        state + "', " + then + ", " + then + ", " + then + ", " + then + " FROM numbers");
  }

  static bool count_is(const std::string& state, int number) {
    return count("state = '" + state + "'") == number;
  }

  /// Makes another queue; returns the setting that says where it is.
  std::string also(const std::string& name) const {
    if (in_postgres()) {
      sql("SET client_min_messages = warning; DROP SCHEMA IF EXISTS " + name + " CASCADE");
      migrate(uri(), {.schema = name});
      return "schema=" + name;
    }
    migrate(file_uri(name));
    return "database=" + file_uri(name);
  }
  TaskQueue open(const std::string& name) const {
    return in_postgres() ? TaskQueue{uri(), {.postgres = {.schema = name}}}
                         : TaskQueue{file_uri(name)};
  }

  /// The setting of a queue that does not work until mend().
  std::string broken() const {
    if (in_postgres()) {
      sql("SET client_min_messages = warning; DROP SCHEMA IF EXISTS missing CASCADE");
      return "schema=missing";
    }
    return "database=" + file_uri("later/tasks");
  }
  void mend() const {
    if (in_postgres()) {
      migrate(uri(), {.schema = "missing"});
    } else {
      std::filesystem::create_directory(dir.path() / "later");
    }
  }
  static std::string what_is_broken() { return in_postgres() ? "recovery: " : "opening: "; }

  /// Waits for a whole round that began after now.
  static void wait_for_round(const Leaseholdd& daemon, const std::string& queue = "leasehold") {
    const std::string sample =
        "leasehold_rounds_total{queue=\"" + queue + "\",outcome=\"completed\"}";
    const double now = daemon.metric(sample);
    EXPECT_TRUE(eventually([&] { return daemon.metric(sample) >= now + 2; }, patience))
        << daemon.log();
  }

  static std::string read_source(const std::string& path) {
    std::ifstream file(std::string(LEASEHOLD_SOURCE_DIR) + "/" + path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  /// The names of metrics in a text.
  static std::set<std::string> names_in(const std::string& text) {
    std::set<std::string> names;
    for (auto at = text.find("leasehold_"); at != text.npos; at = text.find("leasehold_", at + 1)) {
      const auto end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at);
      names.insert(text.substr(at, end - at));
    }
    return names;
  }
  static std::set<std::string> metric_names(const std::string& text) {
    std::set<std::string> names;
    std::istringstream lines(text);
    for (std::string hash, type, name; lines >> hash;) {
      if (hash == "#" && lines >> type >> name && type == "TYPE") names.insert(name);
      std::getline(lines, hash);
    }
    return names;
  }

  static void stop(Leaseholdd& daemon) {
    daemon.process().kill(SIGTERM);
    const auto end = daemon.process().wait(patience);
    ASSERT_TRUE(end) << "it does not leave:\n" << daemon.log();
    EXPECT_TRUE(end->success()) << "code " << end->code << " signal " << end->signal << "\n"
                                << daemon.log();
  }

  const testing::TempDir dir;

 private:
  static std::string up_to(int number) {
    return "WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < " +
           std::to_string(number) + ") ";
  }
  std::string file_uri(const std::string& name) const {
    return "sqlite:" + (dir.path() / (name + ".db")).string();
  }
};
LEASEHOLD_BETWEEN_PROCESSES(DaemonRoundsTest);

/// What only a server can do, or can be asked.
class ServerRoundsTest : public DaemonRoundsTest {};
INSTANTIATE_TEST_SUITE_P(Stores, ServerRoundsTest, ::testing::Values(Store::postgres), name_of);

/// What is about files.
class FileRoundsTest : public DaemonRoundsTest {};
INSTANTIATE_TEST_SUITE_P(Stores, FileRoundsTest, ::testing::Values(Store::sqlite_file), name_of);

TEST_P(DaemonRoundsTest, ExpiredLeasesAreTakenBackWithinTheSweepIntervalAndASecond) {
  std::optional<testing::PostgresCanary> canary;
  if (in_postgres()) canary.emplace(uri());
  testing::StallWatch stalls{100ms};
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
  EXPECT_TRUE(eventually(
      [&] {
        return daemon.metric(
                   "leasehold_recovered_tasks_total{queue=\"leasehold\",outcome=\"requeued\"}") ==
               3;
      },
      patience));
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
  EXPECT_TRUE(eventually(
      [&] {
        return daemon.metric(
                   "leasehold_recovered_tasks_total{queue=\"leasehold\",outcome=\"dead\"}") == 1;
      },
      patience));
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
  const auto refused =
      testing::run_leaseholdd(LEASEHOLDD, {"--once", "--database", "sqlite::memory:x"});
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

TEST_P(FileRoundsTest, AReloadThatAddsAFileThatCanNotBeOpenedStopsNothing) {
  const std::string path = (dir.path() / "conf").string();
  const auto write = [&](const std::string& more) {
    std::ofstream(path)
        << "listen = 127.0.0.1:0\nround-interval = 100ms\n[queue alpha]\ndatabase = " << uri()
        << "\n"
        << more;
  };
  write("");
  Leaseholdd daemon(LEASEHOLDD, {"--config", path});
  wait_for_round(daemon, "alpha");
  write("[queue beta]\ndatabase = sqlite:" + (dir.path() / "none" / "tasks.db").string() + "\n");
  daemon.process().kill(SIGHUP);
  EXPECT_TRUE(eventually([&] { return daemon.logged("configuration reloaded") == 1; }, patience))
      << daemon.log();
  wait_for_round(daemon, "alpha");
  EXPECT_TRUE(eventually(
      [&] { return daemon.logged("round failed, will keep trying queue=beta") == 1; }, patience))
      << daemon.log();
  stop(daemon);
}

TEST_P(ServerRoundsTest, AReloadLetsGoOfConnectionsAndOfWhatWasSeen) {
  const std::string path = (dir.path() / "conf").string();
  const auto write = [&](const std::string& database) {
    std::ofstream(path) << "listen = 127.0.0.1:0\nround-interval = 100ms\n[queue q]\ndatabase = "
                        << database << "\n";
  };
  const auto connections = [] {
    return sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leaseholdd'");
  };
  ASSERT_TRUE(eventually([&] { return connections() == "0"; }, patience)) << "of other tests";
  write(uri());
  Leaseholdd daemon(LEASEHOLDD, {"--config", path});
  wait_for_round(daemon, "q");
  EXPECT_EQ(connections(), "1");
  write("sqlite:" + (dir.path() / "none" / "tasks.db").string());
  daemon.process().kill(SIGHUP);
  EXPECT_TRUE(eventually([&] { return daemon.logged("configuration reloaded") == 1; }, patience))
      << daemon.log();
  // Whether or not its first round has failed meanwhile.
  EXPECT_EQ(daemon.get("/readyz").status, 503);
  EXPECT_TRUE(daemon.status().at("queues").at(0).at("measured").is_null());
  EXPECT_TRUE(eventually([&] { return connections() == "0"; }, patience));
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
  EXPECT_TRUE(eventually(
      [&] {
        double sum = 0;
        for (const auto& daemon : daemons) {
          sum += daemon->metric(
              "leasehold_recovered_tasks_total{queue=\"leasehold\",outcome=\"requeued\"}");
        }
        return sum == tasks;
      },
      patience));
  for (const auto& daemon : daemons) wait_for_round(*daemon);
  double sum = 0;
  for (const auto& daemon : daemons) {
    sum +=
        daemon->metric("leasehold_recovered_tasks_total{queue=\"leasehold\",outcome=\"requeued\"}");
    EXPECT_EQ(daemon->metric("leasehold_rounds_total{queue=\"leasehold\",outcome=\"failed\"}"), 0)
        << daemon->log();
  }
  EXPECT_EQ(sum, tasks) << "none twice";
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
  sql("ALTER TABLE leasehold.tasks SET UNLOGGED;"
      "INSERT INTO leasehold.tasks (type, payload, state, finished_at) "
      "SELECT 't', '{}', 'completed', now() - interval '3 days' FROM generate_series(1, 200000);"
      // Even if we are starved for seconds, some of it is left.
      "CREATE FUNCTION leasehold.take_time() RETURNS trigger LANGUAGE plpgsql AS $$ "
      "BEGIN PERFORM pg_sleep(0.05); RETURN NULL; END $$;"
      "CREATE TRIGGER take_time BEFORE DELETE ON leasehold.tasks "
      "EXECUTE FUNCTION leasehold.take_time()");
  auto daemon = start({"--round-interval", "100ms"});
  EXPECT_TRUE(eventually([&] { return daemon.logged("finished tasks removed") >= 3; }, patience))
      << "in several rounds\n"
      << daemon.log();
  insert_expired(1);
  EXPECT_TRUE(eventually([&] { return daemon.logged("leases recovered") == 1; }, patience));
  EXPECT_NE(sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'completed'"), "0")
      << "the mountain is not gone yet";
}

TEST_P(ServerRoundsTest, SlowCountsAreMadeLessOften) {
  // As slow as after hours of a long transaction.
  sql("CREATE SEQUENCE leasehold.counted;"
      "CREATE OR REPLACE FUNCTION leasehold.count_tasks(at_most bigint) "
      "RETURNS TABLE (of_type text, in_state text, number bigint) LANGUAGE plpgsql AS $$ "
      "BEGIN PERFORM nextval('leasehold.counted'), pg_sleep(1); "
      "RETURN QUERY SELECT 't', 'pending', 7::bigint; END $$");
  auto daemon = start();
  const std::string rounds = "leasehold_rounds_total{queue=\"leasehold\",outcome=\"completed\"}";
  EXPECT_TRUE(eventually([&] { return daemon.metric(rounds) >= 15; }, 60s)) << daemon.log();
  EXPECT_LE(std::stoi(sql("SELECT last_value FROM leasehold.counted")), 7)
      << "recovery goes on in between";
  EXPECT_EQ(daemon.metric("leasehold_tasks{queue=\"leasehold\",type=\"t\",state=\"pending\"}"), 7)
      << "what was counted last is still shown";
  stop(daemon);
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

TEST_P(DaemonRoundsTest, EndpointsSayWhatThereIsToKnow) {
  TaskQueue queue{uri()};
  queue.enqueue({.type = "a \"quoted\" type"});
  queue.enqueue({.type = "späť"});
  auto daemon = start({}, {{"LEASEHOLD_LOG_FORMAT", "text"}});
  EXPECT_TRUE(eventually([&] { return daemon.get("/readyz").status == 200; }, patience))
      << daemon.log();
  EXPECT_EQ(daemon.get("/readyz").body, "ready\n");
  EXPECT_EQ(daemon.get("/healthz").status, 200);
  EXPECT_EQ(daemon.get("/healthz").body, "alive\n");

  const auto metrics = daemon.get("/metrics");
  EXPECT_EQ(metrics.status, 200);
  EXPECT_TRUE(contains(metrics.headers, "text/plain; version=0.0.4")) << metrics.headers;
  EXPECT_TRUE(
      contains(metrics.body,
               R"(leasehold_tasks{queue="leasehold",type="a \"quoted\" type",state="pending"} 1)"))
      << metrics.body;
  EXPECT_TRUE(contains(metrics.body, "leasehold_build_info{version=\"")) << metrics.body;

  const auto status = daemon.status();
  EXPECT_TRUE(status.at("ready"));
  EXPECT_FALSE(status.at("version").get<std::string>().empty());
  EXPECT_GE(status.at("uptime_s").get<double>(), 0);
  const auto& shown = status.at("queues").at(0);
  EXPECT_EQ(shown.at("name"), "leasehold");
  EXPECT_TRUE(shown.at("problem").is_null());
  EXPECT_GE(shown.at("rounds").at("completed").get<int>(), 1);
  EXPECT_FALSE(shown.at("last_round").at("ended").get<std::string>().empty());
  EXPECT_EQ(shown.at("recovered").at("requeued"), 0);
  EXPECT_EQ(shown.at("measured").at("tasks").at("späť").at("pending"), 1);
  EXPECT_TRUE(status.at("locks").is_null());
}

TEST_P(DaemonRoundsTest, WrongPathsAndMethodsAreTurnedAway) {
  const auto daemon = start();
  EXPECT_EQ(daemon.get("/").status, 404);
  EXPECT_EQ(daemon.get("/metrics/").status, 404);
  EXPECT_EQ(daemon.get("/metrics?x=y").status, 200);
  for (const auto* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    const auto answer = testing::http_get(daemon.address(), "/metrics", {"--request", method});
    EXPECT_EQ(answer.status, 405) << method;
    EXPECT_TRUE(contains(answer.headers, "Allow: GET, HEAD")) << answer.headers;
  }
  EXPECT_EQ(testing::http_get(daemon.address(), "/", {"--request", "POST"}).status, 404);
  EXPECT_EQ(testing::http_get(daemon.address(), "/healthz", {"--head"}).status, 200);
  // Too large, in each of the ways in which a request can be; it lives on.
  EXPECT_GE(testing::http_get(daemon.address(), "/" + std::string(10'000, 'x')).status, 400);
  EXPECT_NE(testing::http_get(daemon.address(), "/healthz",
                              {"--header", "X: " + std::string(20'000, 'x')})
                .status,
            200);
  EXPECT_NE(
      testing::http_get(daemon.address(), "/status", {"--data", std::string(100'000, 'x')}).status,
      200);
  EXPECT_EQ(daemon.get("/healthz").status, 200);
}

TEST_P(ServerRoundsTest, PromtoolAcceptsTheMetrics) {
  testing::RedisEndpoint& redis = testing::shared_redis();
  insert_expired(5);
  auto daemon = start({"--redis", redis.uri(), "--lock-scan-interval", "200ms", "--queue",
                       "a schema=leasehold", "--queue", "b database=postgresql://127.0.0.1:1/x"});
  EXPECT_TRUE(eventually([&] { return daemon.metric("leasehold_redis_up") == 1; }, patience));
  wait_for_round(daemon, "a");
  const auto names = metric_names(daemon.get("/metrics").body);
  const auto file = dir.path() / "metrics";
  std::ofstream(file) << daemon.get("/metrics").body;
  const Finished promtool =
      testing::run({.argv = {"sh", "-c", "promtool check metrics < " + file.string()}});
  EXPECT_TRUE(promtool.status.success()) << promtool.output;
  EXPECT_EQ(promtool.output, "") << "no complaint, however small";

  // The guide explains each of them, and no others; the alerts use none that is not there.
  EXPECT_EQ(names_in(read_source("docs/operations.md")), names);
  for (const std::string& name : names_in(read_source("worker/alerts.yaml"))) {
    EXPECT_TRUE(names.contains(name) || names.contains(name.substr(0, name.rfind("_bucket"))))
        << name;
  }
}

TEST(AlertsTest, PromtoolAcceptsThem) {
  const Finished promtool =
      testing::run({.argv = {"promtool", "check", "rules",
                             std::string(LEASEHOLD_SOURCE_DIR) + "/worker/alerts.yaml"}});
  EXPECT_TRUE(promtool.status.success()) << promtool.output;
}

TEST_P(ServerRoundsTest, TheRightsThatTheGuideNamesSuffice) {
  std::string grants;
  std::istringstream lines(read_source("docs/operations.md"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("GRANT ")) grants += line + "\n";
  }
  ASSERT_TRUE(contains(grants, "DELETE ON leasehold.tasks")) << grants;
  sql("DROP ROLE IF EXISTS leaseholdd; CREATE ROLE leaseholdd LOGIN;\n" + grants);
  sql("INSERT INTO leasehold.tasks (type, payload, state, finished_at) "
      "VALUES ('t', '{}', 'completed', now() - interval '2 days')");
  insert_expired(2);
  const std::string plain = uri_as("leaseholdd");
  const Finished done = testing::run_leaseholdd(LEASEHOLDD, {"--once", "--database", plain});
  EXPECT_EQ(done.status.code, 0) << done.output;
  EXPECT_TRUE(contains(done.output, "requeued=2 dead=0 removed=1")) << done.output;
  sql("DROP OWNED BY leaseholdd");
  const Finished without = testing::run_leaseholdd(LEASEHOLDD, {"--once", "--database", plain});
  EXPECT_EQ(without.status.code, 1) << without.output;
  EXPECT_TRUE(contains(without.output, "docs/operations.md")) << without.output;
  sql("DROP ROLE leaseholdd");
}

TEST_P(DaemonRoundsTest, LabelsAreBounded) {
  TaskQueue queue{uri()};
  std::vector<NewTask> tasks;
  for (int i = 0; i < 30; ++i) tasks.push_back({.type = "type" + std::to_string(i)});
  queue.enqueue(tasks);
  auto daemon = start({"--max-types", "4"});
  wait_for_round(daemon);
  EXPECT_EQ(daemon.metric("leasehold_tasks{queue=\"leasehold\",type=\"other\",state=\"pending\"}"),
            26);
  EXPECT_EQ(daemon.metric("leasehold_tasks{queue=\"leasehold\",type=\"type0\",state=\"pending\"}"),
            1);
  EXPECT_EQ(daemon.metric("leasehold_tasks{queue=\"leasehold\",type=\"type0\",state=\"dead\"}"), 0)
      << "a type that is shown has all its states";
  EXPECT_EQ(daemon.metric("leasehold_tasks{queue=\"leasehold\",type=\"type9\",state=\"pending\"}"),
            -1);
  // A newcomer that is sorted before them takes nobody's place.
  queue.enqueue({.type = "a"});
  EXPECT_TRUE(eventually(
      [&] {
        return daemon.metric(
                   "leasehold_tasks{queue=\"leasehold\",type=\"other\",state=\"pending\"}") == 27;
      },
      patience));
  EXPECT_EQ(daemon.metric("leasehold_tasks{queue=\"leasehold\",type=\"type0\",state=\"pending\"}"),
            1);
  // Who has no tasks any more makes room.
  sql("DELETE FROM leasehold.tasks WHERE type = 'type0'");
  EXPECT_TRUE(eventually(
      [&] {
        return daemon.metric("leasehold_tasks{queue=\"leasehold\",type=\"a\",state=\"pending\"}") ==
               1;
      },
      patience));
}

TEST_P(DaemonRoundsTest, CountsStopAtTheLimitAndSaySo) {
  TaskQueue queue{uri()};
  queue.enqueue(std::vector<NewTask>(30, {.type = "t"}));
  const auto daemon = start({"--count-limit", "10"});
  wait_for_round(daemon);
  EXPECT_EQ(daemon.metric("leasehold_tasks{queue=\"leasehold\",type=\"t\",state=\"pending\"}"), 10);
  EXPECT_EQ(daemon.metric("leasehold_tasks_count_limit{queue=\"leasehold\"}"), 10);
  EXPECT_TRUE(daemon.status().at("queues").at(0).at("measured").at("tasks_cut_off"));
}

TEST_P(ServerRoundsTest, ALongTransactionIsWarnedOfOnceWithWhoItIs) {
  auto daemon = start({"--long-transaction", "300ms", "--log-format", "json"});
  wait_for_round(daemon);
  EXPECT_EQ(daemon.logged("long transaction"), 0U) << daemon.log();
  int pid = 0;
  {
    pqxx::connection connection{uri_with("application_name=nightly-report")};
    pqxx::transaction<pqxx::isolation_level::repeatable_read> report{connection};
    pid = report.exec1("SELECT pg_backend_pid()")[0].as<int>();
    EXPECT_TRUE(eventually([&] { return daemon.logged("long transaction holds back vacuum") == 1; },
                           patience))
        << daemon.log();
    EXPECT_TRUE(eventually(
        [&] {
          return daemon.metric("leasehold_oldest_snapshot_age_seconds{queue=\"leasehold\"}") > 0.3;
        },
        patience));
    wait_for_round(daemon);
    const auto holder = daemon.status().at("queues").at(0).at("measured").at("oldest_snapshot");
    EXPECT_EQ(holder.at("pid"), pid);
    EXPECT_EQ(holder.at("name"), "nightly-report");
  }
  EXPECT_TRUE(eventually([&] { return daemon.logged("long transaction is over") == 1; }, patience));
  EXPECT_EQ(daemon.logged("long transaction holds back vacuum"), 1U) << "not in each round";
  std::istringstream lines(daemon.log());
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.at("message") != "long transaction holds back vacuum") continue;
    EXPECT_EQ(event.at("pid"), pid);
    EXPECT_EQ(event.at("application"), "nightly-report");
    EXPECT_TRUE(contains(event.at("hint"), "pg_terminate_backend(" + std::to_string(pid) + ")"));
    EXPECT_TRUE(contains(event.at("hint"), "leasehold_oldest_snapshot_age_seconds"));
  }
}

TEST_P(DaemonRoundsTest, JsonLinesParseAndHaveTheSameKeys) {
  insert_expired(2);
  auto daemon = start({"--log-format", "json", "--log-level", "debug", "--queue", "good", "--queue",
                       "bad " + broken()});
  EXPECT_TRUE(eventually([&] { return daemon.logged("leases recovered") == 1; }, patience));
  EXPECT_TRUE(eventually([&] { return daemon.logged("round failed") == 1; }, patience));
  stop(daemon);
  int recovered = 0;
  bool failed = false;
  std::istringstream lines(daemon.log());
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    EXPECT_TRUE(event.at("time").get<std::string>().ends_with("Z")) << line;
    EXPECT_TRUE(event.contains("level") && event.contains("message")) << line;
    if (event.at("message") == "task recovered") {  // the library's own words
      ++recovered;
      EXPECT_TRUE(event.at("id").is_number()) << line;
      EXPECT_EQ(event.at("type"), "t");
      EXPECT_EQ(event.at("worker"), "crashed");
      EXPECT_EQ(event.at("queue"), "good");
    }
    if (event.at("message") == "round failed, will keep trying") {
      failed = true;
      EXPECT_EQ(event.at("level"), "warn");
      EXPECT_EQ(event.at("queue"), "bad");
      EXPECT_TRUE(contains(event.at("error"), what_is_broken())) << line;
      EXPECT_EQ(event.value("hint", "") == "run migrate", in_postgres()) << line;
      EXPECT_EQ(contains(event.at("error"), "relation \"missing.tasks\" does not exist"),
                in_postgres())
          << line;
    }
  }
  EXPECT_EQ(recovered, 2);
  EXPECT_TRUE(failed);
}

TEST_P(ServerRoundsTest, StaleLocksAreCounted) {
  testing::RedisServer redis;
  LockClient client{redis.uri()};
  auto held = client.acquire("held", {.ttl = 60s});
  auto stale = client.acquire("stale", {.ttl = 100ms, .heartbeat = Heartbeat::manual});
  ASSERT_TRUE(held && stale);
  auto daemon = start({"--redis", redis.uri(), "--lock-scan-interval", "100ms"});
  EXPECT_TRUE(
      eventually([&] { return daemon.metric("leasehold_locks{state=\"stale\"}") == 1; }, patience));
  EXPECT_EQ(daemon.metric("leasehold_locks{state=\"held\"}"), 1);
  EXPECT_EQ(daemon.status().at("locks").at("stale"), 1);

  // Without Redis the rest goes on, and the numbers are not shown any more.
  const auto failed = daemon.logged("lock scan failed");  // if Redis is starved for a second
  redis.kill();
  EXPECT_TRUE(eventually([&] { return daemon.metric("leasehold_redis_up") == 0; }, patience));
  EXPECT_EQ(daemon.metric("leasehold_locks{state=\"stale\"}"), -1);
  wait_for_round(daemon);
  EXPECT_EQ(daemon.get("/readyz").status, 200) << "Redis is not what it is for";
  EXPECT_EQ(daemon.logged("lock scan failed, will keep trying"), failed + 1) << daemon.log();
  redis.start();
  EXPECT_TRUE(eventually([&] { return daemon.metric("leasehold_redis_up") == 1; }, patience));
  EXPECT_TRUE(
      eventually([&] { return daemon.logged("lock scan works again") >= failed + 1; }, patience))
      << daemon.log();
  stop(daemon);
}

TEST_P(DaemonRoundsTest, SighupReloadsAndAnInvalidConfigChangesNothing) {
  const std::string alpha = "[queue alpha]\n" + also("alpha") + "\n";
  const std::string beta = "[queue beta]\n" + also("beta") + "\n";
  const std::string path = (dir.path() / "conf").string();
  const auto write = [&](const std::string& queues) {
    std::ofstream(path) << "listen = 127.0.0.1:0\ndatabase = " << uri()
                        << "\nround-interval = 100ms\n"
                        << queues;
  };
  write(alpha);
  Leaseholdd daemon(LEASEHOLDD, {"--config", path});
  wait_for_round(daemon, "alpha");
  TaskQueue queue = open("alpha");
  queue.enqueue({.type = "t"});
  for (auto& lease : queue.lease({.types = {"t"}, .duration = 100ms})) lease.abandon();
  const std::string requeued =
      "leasehold_recovered_tasks_total{queue=\"alpha\",outcome=\"requeued\"}";
  EXPECT_TRUE(eventually([&] { return daemon.metric(requeued) == 1; }, patience));

  write(alpha + "round-interval = soon\n");
  daemon.process().kill(SIGHUP);
  EXPECT_TRUE(eventually(
      [&] { return daemon.logged("configuration refused, the old one stays") == 1; }, patience));
  EXPECT_TRUE(contains(daemon.log(),
                       "conf:6: round-interval must be 50ms to 1h (written like 500ms, 5s, 2m, 1h "
                       "or 7d), got \"soon\""))
      << daemon.log();
  EXPECT_EQ(daemon.metric("leasehold_config_reloads_total{outcome=\"refused\"}"), 1);
  wait_for_round(daemon, "alpha");

  // One queue more, and another interval for the first: it keeps its totals.
  write(alpha + "round-interval = 150ms\n" + beta);
  daemon.process().kill(SIGHUP);
  EXPECT_TRUE(eventually([&] { return daemon.logged("configuration reloaded") == 1; }, patience));
  wait_for_round(daemon, "beta");
  wait_for_round(daemon, "alpha");
  EXPECT_EQ(daemon.metric(requeued), 1);
  EXPECT_EQ(daemon.status().at("queues").at(0).at("round_interval_s"), 0.15);
  EXPECT_EQ(daemon.metric("leasehold_config_reloads_total{outcome=\"accepted\"}"), 1);

  // A queue less, and other logs.
  write("log-format = json\n" + beta);
  daemon.process().kill(SIGHUP);
  EXPECT_TRUE(eventually([&] { return daemon.logged("configuration reloaded") == 2; }, patience));
  EXPECT_EQ(daemon.metric(requeued), -1) << "gone";
  EXPECT_TRUE(contains(daemon.log(), "\"message\":\"configuration reloaded\"")) << daemon.log();
  stop(daemon);
}

TEST_P(DaemonRoundsTest, AReloadCanMoveTheEndpoints) {
  const std::string path = (dir.path() / "conf").string();
  const auto write = [&](const std::string& listen) {
    std::ofstream(path) << "database = " << uri() << "\nlisten = " << listen << "\n";
  };
  write("127.0.0.1:0");
  Leaseholdd daemon(LEASEHOLDD, {"--config", path});
  daemon.process().kill(SIGHUP);
  EXPECT_TRUE(eventually([&] { return daemon.logged("configuration reloaded") == 1; }, patience));
  EXPECT_EQ(daemon.get("/healthz").status, 200) << "nothing changed";

  const auto other = start();
  write(other.address());
  daemon.process().kill(SIGHUP);
  EXPECT_TRUE(eventually([&] { return daemon.logged("Address already in use") == 1; }, patience))
      << daemon.log();
  EXPECT_EQ(daemon.get("/healthz").status, 200) << "the old one stays";
  EXPECT_EQ(daemon.metric("leasehold_config_reloads_total{outcome=\"refused\"}"), 1);

  write("localhost:0");
  daemon.process().kill(SIGHUP);
  EXPECT_TRUE(eventually([&] { return daemon.logged("configuration reloaded") == 2; }, patience));
  const std::string log = daemon.log();
  const auto address = log.find("localhost:");
  const std::string moved = log.substr(address, log.find(' ', address) - address);
  EXPECT_EQ(testing::http_get(moved, "/healthz").status, 200) << moved;
  EXPECT_TRUE(eventually([&] { return daemon.get("/healthz").status == 0; }, patience));
  stop(daemon);
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
}  // namespace leasehold
