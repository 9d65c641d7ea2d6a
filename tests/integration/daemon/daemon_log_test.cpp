// What leaseholdd logs.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/daemon/daemon_fixture.hpp"

namespace leasehold::testing {
namespace {

using nlohmann::json;

/// The events with this message. Every line must be an object.
std::vector<json> events(const Leaseholdd& daemon, const std::string& message) {
  std::vector<json> found;
  std::istringstream lines(daemon.log());
  for (std::string line; std::getline(lines, line);) {
    json event = json::parse(line);
    EXPECT_TRUE(event.is_object()) << line;
    if (event.at("message") == message) found.push_back(std::move(event));
  }
  return found;
}

/// Without what differs each time. The rest must be exactly this.
json without(json event, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    EXPECT_EQ(event.erase(key), 1U) << key << " is missing in " << event;
  }
  return event;
}

class DaemonLogTest : public DaemonFixture {};
ON_STORES_BETWEEN_PROCESSES(DaemonLogTest);

/// What only a server can do, or can be asked.
class ServerLogTest : public DaemonFixture {};
ON_STORES(ServerLogTest, StoreKind::postgres);

TEST_P(ServerLogTest, ALongTransactionIsWarnedOfOnceWithWhoItIs) {
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

TEST_P(ServerLogTest, TheNameOfAnApplicationForgesNoFields) {
  const std::string name = R"(x" pid=0 level="error \ )";
  auto daemon = start({"--long-transaction", "1ms", "--log-format", "json"});
  pqxx::connection connection{uri()};
  pqxx::nontransaction{connection}.exec("SET application_name = " + connection.quote(name));
  pqxx::transaction<pqxx::isolation_level::repeatable_read> report{connection};
  const int pid = report.exec1("SELECT pg_backend_pid()")[0].as<int>();
  const auto warnings = [&] { return events(daemon, "long transaction holds back vacuum"); };
  ASSERT_TRUE(eventually([&] { return !warnings().empty(); }, patience)) << daemon.log();
  const json event = without(warnings().front(),
                             {"time", "user", "open_for_s", "transactions", "dead_rows", "hint"});
  EXPECT_EQ(event, (json{{"level", "warn"},
                         {"message", "long transaction holds back vacuum"},
                         {"queue", "leasehold"},
                         {"kind", "transaction"},
                         {"pid", pid},
                         {"application", name}}));
}

TEST_P(DaemonLogTest, ThePathOfARequestForgesNoFields) {
  auto daemon = start({"--log-format", "json", "--log-level", "debug"});
  // x state=dead level=error "q" \ line break {}
  daemon.get("/x%20state=dead%20level=error%20%22q%22%20%5c%20%0a%7b%7d?token=hidden");
  const auto requests = [&] { return events(daemon, "http request"); };
  ASSERT_TRUE(eventually([&] { return !requests().empty(); }, patience)) << daemon.log();
  EXPECT_EQ(without(requests().front(), {"time", "took_us"}),
            (json{{"level", "debug"},
                  {"message", "http request"},
                  {"method", "GET"},
                  {"path", "/x state=dead level=error \"q\" \\ \n{}"},
                  {"status", 404}}));
  EXPECT_EQ(daemon.logged("hidden"), 0U) << "the query may contain anything";
}

TEST_P(DaemonLogTest, TheTypeOfATaskAndTheNameOfItsWorkerForgeNoFields) {
  const std::string hostile = "x state=dead level=error \"q\" \\ ";
  insert_expired(1);
  sql("UPDATE leasehold.tasks SET type = '" + hostile + "', leased_by = '" + hostile + "\n{}'");
  auto daemon = start({"--log-format", "json"});
  const auto recovered = [&] { return events(daemon, "task recovered"); };
  ASSERT_TRUE(eventually([&] { return !recovered().empty(); }, patience)) << daemon.log();
  EXPECT_EQ(without(recovered().front(), {"time", "id", "overdue_ms"}),
            (json{{"level", "info"},
                  {"message", "task recovered"},
                  {"queue", "leasehold"},
                  {"type", hostile},
                  {"worker", hostile + "\n{}"},
                  {"crashes", 1},
                  {"state", "pending"}}));
}

TEST_P(DaemonLogTest, TextLinesAreNotBrokenByOthersTexts) {
  auto daemon = start({"--log-level", "debug"});
  daemon.get("/x%20%22%0a2026-01-01T00:00:00.000Z%20error%20forged");
  EXPECT_TRUE(eventually([&] { return daemon.logged("http request") == 1; }, patience));
  EXPECT_EQ(daemon.logged(R"( debug http request method=GET path="/x \"\n2026-01-01T00:00:00.000Z )"
                          R"(error forged" status=404 took_us=)"),
            1U)
      << daemon.log();
}

TEST_P(DaemonLogTest, DebugSaysMoreThanInfo) {
  const std::vector<std::string> of_debug{"settings of the daemon", "settings of a queue",
                                          "database opened", "round ended", "http request"};
  auto quiet = start();
  auto daemon = start({"--log-format", "json", "--log-level", "debug", "--retain-dead", "2d"});
  insert_expired(2);
  wait_for_round(quiet);
  wait_for_round(daemon);
  EXPECT_EQ(daemon.get("/healthz").status, 200);
  for (const std::string& message : of_debug) {
    EXPECT_EQ(quiet.logged(message), 0U) << quiet.log();
    ASSERT_TRUE(eventually([&] { return !events(daemon, message).empty(); }, patience))
        << message << "\n"
        << daemon.log();
    EXPECT_EQ(events(daemon, message).front().at("level"), "debug");
  }
  const json settings = events(daemon, "settings of a queue").front();
  EXPECT_EQ(settings.at("queue"), "leasehold");
  EXPECT_EQ(settings.at("round_interval_ms"), 200);
  EXPECT_EQ(settings.at("retain_dead"), "2 days");
  EXPECT_EQ(settings.at("where"), events(daemon, "database opened").front().at("where"));
  const json round = events(daemon, "round ended").front();
  for (const char* key : {"took_ms", "requeued", "dead", "removed"}) {
    EXPECT_TRUE(round.at(key).is_number()) << round;
  }
}

TEST_P(DaemonLogTest, DebugShowsTheSettingsAfterAReload) {
  const std::string path = (dir.path() / "conf").string();
  const auto write = [&](const std::string& interval) {
    std::ofstream(path) << "listen = 127.0.0.1:0\nlog-format = json\nlog-level = debug\n"
                        << "round-interval = " << interval << "\n[queue q]\ndatabase = " << uri()
                        << "\n";
  };
  write("200ms");
  Leaseholdd daemon(LEASEHOLDD, {"--config", path});
  const auto settings = [&] { return events(daemon, "settings of a queue"); };
  ASSERT_TRUE(eventually([&] { return settings().size() == 1; }, patience)) << daemon.log();
  EXPECT_EQ(settings().at(0).at("round_interval_ms"), 200);
  write("300ms");
  daemon.process().kill(SIGHUP);
  ASSERT_TRUE(eventually([&] { return settings().size() == 2; }, patience)) << daemon.log();
  EXPECT_EQ(settings().at(1).at("round_interval_ms"), 300);
}

TEST_P(ServerLogTest, DebugShowsNoPassword) {
  auto daemon =
      start({"--log-level", "debug"}, {{"LEASEHOLD_DATABASE", uri_with("password=open-sesame")},
                                       {"LEASEHOLD_REDIS", "redis://:open-sesame@127.0.0.1:1"}});
  wait_for_round(daemon);
  EXPECT_TRUE(eventually([&] { return daemon.logged("settings of a queue") == 1; }, patience));
  EXPECT_TRUE(
      eventually([&] { return daemon.logged("settings of the lock scan") == 1; }, patience));
  EXPECT_EQ(daemon.logged("open-sesame"), 0U) << daemon.log();
}

TEST_P(DaemonLogTest, JsonLinesParseAndHaveTheSameKeys) {
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
      EXPECT_EQ(contains(event.at("error"), "schema \"missing\" does not exist"), in_postgres())
          << line;
    }
  }
  EXPECT_EQ(recovered, 2);
  EXPECT_TRUE(failed);
}

}  // namespace
}  // namespace leasehold::testing
