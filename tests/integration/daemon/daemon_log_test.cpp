// What leaseholdd logs.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/integration/daemon/daemon_fixture.hpp"

namespace leasehold::testing {
namespace {

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
      EXPECT_EQ(contains(event.at("error"), "relation \"missing.tasks\" does not exist"),
                in_postgres())
          << line;
    }
  }
  EXPECT_EQ(recovered, 2);
  EXPECT_TRUE(failed);
}

}  // namespace
}  // namespace leasehold::testing
