// What a reload of the configuration changes, and what it leaves alone.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/integration/daemon/daemon_fixture.hpp"

namespace leasehold::testing {
namespace {

class DaemonReloadTest : public DaemonFixture {};
ON_STORES_BETWEEN_PROCESSES(DaemonReloadTest);

/// What only a server can do, or can be asked.
class ServerReloadTest : public DaemonFixture {};
ON_STORES(ServerReloadTest, StoreKind::postgres);

/// What is about files.
class FileReloadTest : public DaemonFixture {};
ON_STORES(FileReloadTest, StoreKind::sqlite_file);

TEST_P(FileReloadTest, AReloadThatAddsAFileThatCanNotBeOpenedStopsNothing) {
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

TEST_P(ServerReloadTest, AReloadLetsGoOfConnectionsAndOfWhatWasSeen) {
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

TEST_P(DaemonReloadTest, SighupReloadsAndAnInvalidConfigChangesNothing) {
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
                       "or 7d), got \\\"soon\\\""))
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

TEST_P(DaemonReloadTest, AReloadCanMoveTheEndpoints) {
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
  EXPECT_EQ(http_get(moved, "/healthz").status, 200) << moved;
  EXPECT_TRUE(eventually([&] { return daemon.get("/healthz").status == 0; }, patience));
  stop(daemon);
}

}  // namespace
}  // namespace leasehold::testing
