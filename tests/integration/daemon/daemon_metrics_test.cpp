// The endpoints of leaseholdd: metrics, counts, and paths that it turns away.
#include <gtest/gtest.h>

#include <fstream>
#include <leasehold/locks.hpp>
#include <string>
#include <vector>

#include "tests/integration/daemon/daemon_fixture.hpp"
#include "tests/support/shared_servers.hpp"
#include "tests/support/starvation.hpp"

namespace leasehold::testing {
namespace {

class DaemonMetricsTest : public DaemonFixture {};
ON_STORES_BETWEEN_PROCESSES(DaemonMetricsTest);

/// What only a server can do, or can be asked.
class ServerMetricsTest : public DaemonFixture {};
ON_STORES(ServerMetricsTest, StoreKind::postgres);

TEST_P(ServerMetricsTest, SlowCountsAreMadeLessOften) {
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

TEST_P(DaemonMetricsTest, EndpointsSayWhatThereIsToKnow) {
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

TEST_P(DaemonMetricsTest, WrongPathsAndMethodsAreTurnedAway) {
  const auto daemon = start();
  EXPECT_EQ(daemon.get("/").status, 404);
  EXPECT_EQ(daemon.get("/metrics/").status, 404);
  EXPECT_EQ(daemon.get("/metrics?x=y").status, 200);
  for (const auto* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    const auto answer = http_get(daemon.address(), "/metrics", {"--request", method});
    EXPECT_EQ(answer.status, 405) << method;
    EXPECT_TRUE(contains(answer.headers, "Allow: GET, HEAD")) << answer.headers;
  }
  EXPECT_EQ(http_get(daemon.address(), "/", {"--request", "POST"}).status, 404);
  EXPECT_EQ(http_get(daemon.address(), "/healthz", {"--head"}).status, 200);
  // Too large, in each of the ways in which a request can be; it lives on.
  EXPECT_GE(http_get(daemon.address(), "/" + std::string(10'000, 'x')).status, 400);
  EXPECT_NE(
      http_get(daemon.address(), "/healthz", {"--header", "X: " + std::string(20'000, 'x')}).status,
      200);
  EXPECT_NE(http_get(daemon.address(), "/status", {"--data", std::string(100'000, 'x')}).status,
            200);
  EXPECT_EQ(daemon.get("/healthz").status, 200);
}

TEST_P(ServerMetricsTest, PromtoolAcceptsTheMetrics) {
  RedisEndpoint& redis = shared_redis();
  insert_expired(5);
  auto daemon = start({"--redis", redis.uri(), "--lock-scan-interval", "200ms", "--queue",
                       "a schema=leasehold", "--queue", "b database=postgresql://127.0.0.1:1/x"});
  EXPECT_TRUE(eventually([&] { return daemon.metric("leasehold_redis_up") == 1; }, patience));
  wait_for_round(daemon, "a");
  const auto names = metric_names(daemon.get("/metrics").body);
  const auto file = dir.path() / "metrics";
  std::ofstream(file) << daemon.get("/metrics").body;
  const Finished promtool =
      run({.argv = {"sh", "-c", "promtool check metrics < " + file.string()}});
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
      run({.argv = {"promtool", "check", "rules",
                    std::string(LEASEHOLD_SOURCE_DIR) + "/worker/alerts.yaml"}});
  EXPECT_TRUE(promtool.status.success()) << promtool.output;
}

TEST(AlertsTest, TheyFireWhenTheyShould) {
  const Finished promtool = run(
      {.argv = {"promtool", "test", "rules",
                std::string(LEASEHOLD_SOURCE_DIR) + "/tests/integration/daemon/alerts_test.yaml"}});
  EXPECT_TRUE(promtool.status.success()) << promtool.output;
}

TEST_P(DaemonMetricsTest, LabelsAreBounded) {
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

TEST_P(DaemonMetricsTest, CountsStopAtTheLimitAndSaySo) {
  TaskQueue queue{uri()};
  queue.enqueue(std::vector<NewTask>(30, {.type = "t"}));
  const auto daemon = start({"--count-limit", "10"});
  wait_for_round(daemon);
  EXPECT_EQ(daemon.metric("leasehold_tasks{queue=\"leasehold\",type=\"t\",state=\"pending\"}"), 10);
  EXPECT_EQ(daemon.metric("leasehold_tasks_count_limit{queue=\"leasehold\"}"), 10);
  EXPECT_TRUE(daemon.status().at("queues").at(0).at("measured").at("tasks_cut_off"));
}

TEST_P(ServerMetricsTest, StaleLocksAreCounted) {
  RedisServer redis;
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

}  // namespace
}  // namespace leasehold::testing
