// leaseholdd while PostgreSQL hangs, is down, comes back, or was never there.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fstream>
#include <pqxx/pqxx>

#include "leasehold/tasks.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/leaseholdd.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/postgres_server.hpp"

namespace leasehold {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::contains;
using testing::eventually;
using testing::Leaseholdd;
using testing::PostgresServer;

constexpr auto patience = 60s;
const std::string queue_label = "{queue=\"leasehold\"}";

class DaemonFaultsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { shared = std::make_unique<PostgresServer>(); }
  static void TearDownTestSuite() { shared.reset(); }
  void SetUp() override {
    sql("SET client_min_messages = warning; DROP SCHEMA IF EXISTS leasehold CASCADE");
    migrate(server.uri());
  }

  Leaseholdd start(std::vector<std::string> arguments = {}) const {
    arguments.insert(arguments.end(),
                     {"--database", server.uri(), "--sweep-interval", "200ms", "--command-timeout",
                      "5s", "--connect-timeout", "5s", "--max-round-age", "2s"});
    return Leaseholdd(LEASEHOLDD, arguments);
  }
  std::string sql(const std::string& statement) const { return server.run_sql(statement); }
  void insert_expired() const {
    sql("INSERT INTO leasehold.tasks (type, payload, state, leased_by, lease_expiry) "
        "VALUES ('t', '{}', 'leased', 'crashed', now() - interval '1 s')");
  }
  static bool ready(const Leaseholdd& daemon) { return daemon.get("/readyz").status == 200; }

  /// Whatever PostgreSQL does, the endpoints answer, and say the same.
  static void expect_out_of_order(const Leaseholdd& daemon, const std::string& complaint) {
    // The first words may be others: that a connection was lost.
    EXPECT_TRUE(eventually(
        [&] {
          return daemon.metric("leasehold_database_up" + queue_label) == 0 &&
                 contains(daemon.get("/readyz").body, complaint);
        },
        patience))
        << daemon.log();
    const auto answer = daemon.get("/readyz");
    EXPECT_EQ(answer.status, 503);
    EXPECT_TRUE(contains(answer.body, "queue leasehold: the last round failed: recovery: "))
        << answer.body;
    EXPECT_TRUE(contains(answer.body, complaint)) << answer.body;
    EXPECT_EQ(daemon.get("/healthz").status, 200);
    EXPECT_EQ(daemon.metric("leasehold_ready" + queue_label), 0);
    EXPECT_EQ(daemon.metric("leasehold_dead_tuples" + queue_label), -1)
        << "old numbers are not shown";
    const auto status = daemon.status();
    EXPECT_FALSE(status.at("ready"));
    EXPECT_TRUE(contains(status.at("queues").at(0).at("problem").at("error"), complaint)) << status;
    EXPECT_FALSE(status.at("queues").at(0).at("measured").is_null())
        << "the last ones, with their age";
  }
  static void expect_in_order(const Leaseholdd& daemon) {
    EXPECT_TRUE(eventually([&] { return ready(daemon); }, patience)) << daemon.log();
    EXPECT_EQ(daemon.metric("leasehold_database_up" + queue_label), 1);
    EXPECT_TRUE(daemon.status().at("queues").at(0).at("problem").is_null());
  }
  void expect_recovery(const Leaseholdd& daemon) const {
    insert_expired();
    EXPECT_TRUE(eventually(
        [&] { return sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'leased'") == "0"; },
        patience))
        << daemon.log();
  }

  static inline std::unique_ptr<PostgresServer> shared;
  PostgresServer& server = *shared;
};

TEST_F(DaemonFaultsTest, EndpointsAnswerWhilePostgresHangsAndRoundsGoOnAfterwards) {
  const auto daemon = start();
  expect_in_order(daemon);
  server.pause();
  expect_out_of_order(daemon, "recovery: postgresql://127.0.0.1");
  server.resume();
  expect_in_order(daemon);
  expect_recovery(daemon);
  EXPECT_EQ(daemon.logged("round failed, will keep trying"), 1U) << daemon.log();
  EXPECT_EQ(daemon.logged("round works again"), 1U) << daemon.log();
}

TEST_F(DaemonFaultsTest, EndpointsAnswerWhilePostgresIsDownAndRoundsGoOnAfterwards) {
  const auto daemon = start();
  expect_in_order(daemon);
  server.kill();
  expect_out_of_order(daemon, "Connection refused");
  EXPECT_TRUE(eventually(
      [&] {
        return daemon.metric("leasehold_rounds_total{queue=\"leasehold\",outcome=\"failed\"}") >= 5;
      },
      patience));
  server.start();
  expect_in_order(daemon);
  expect_recovery(daemon);
  EXPECT_EQ(daemon.logged("round failed, will keep trying"), 1U) << "said once, not each time\n"
                                                                 << daemon.log();
  EXPECT_EQ(daemon.logged("round works again"), 1U) << daemon.log();
}

TEST_F(DaemonFaultsTest, ItStartsBeforePostgresDoes) {
  server.stop();
  const auto daemon = start();
  EXPECT_EQ(daemon.get("/healthz").status, 200);
  EXPECT_TRUE(eventually([&] { return contains(daemon.get("/readyz").body, "Connection refused"); },
                         patience));
  EXPECT_EQ(daemon.get("/readyz").status, 503);
  EXPECT_TRUE(daemon.status().at("queues").at(0).at("measured").is_null());
  EXPECT_TRUE(daemon.status().at("queues").at(0).at("last_round").is_null());
  server.start();
  expect_in_order(daemon);
  EXPECT_EQ(daemon.logged("round failed, will keep trying"), 1U) << daemon.log();
}

TEST_F(DaemonFaultsTest, ItStartsBeforeTheSchemaIsThereAndSaysMigrate) {
  sql("DROP SCHEMA leasehold CASCADE");
  const auto daemon = start();
  EXPECT_TRUE(
      eventually([&] { return contains(daemon.get("/readyz").body, "run migrate"); }, patience));
  EXPECT_TRUE(eventually([&] { return daemon.logged("hint=\"run migrate\"") > 0; }, patience))
      << daemon.log();
  migrate(server.uri());
  expect_in_order(daemon);
}

TEST_F(DaemonFaultsTest, AQueueWhoseServerHangsHoldsBackNoOther) {
  PostgresServer other;
  migrate(other.uri());
  const auto daemon = start({"--queue", "good", "--queue", "hangs database=" + other.uri()});
  EXPECT_TRUE(eventually([&] { return ready(daemon); }, patience)) << daemon.log();
  other.pause();
  EXPECT_TRUE(eventually([&] { return !ready(daemon); }, patience));
  expect_recovery(daemon);
  EXPECT_TRUE(eventually(
      [&] {
        const std::string body = daemon.get("/readyz").body;
        return contains(body, "queue hangs") && !contains(body, "queue good");
      },
      patience))
      << daemon.get("/readyz").body;
  other.resume();
  EXPECT_TRUE(eventually([&] { return ready(daemon); }, patience));
}

TEST_F(DaemonFaultsTest, SigtermLeavesWithinTheShutdownTimeoutWhilePostgresHangs) {
  // A statement may take a minute; the daemon does not wait for that.
  auto daemon = start({"--shutdown-timeout", "1s", "--queue", "leasehold command-timeout=1m"});
  EXPECT_TRUE(eventually([&] { return ready(daemon); }, patience));
  server.pause();
  EXPECT_TRUE(eventually(
      [&] { return contains(daemon.get("/readyz").body, "a round has been under way for"); },
      patience))
      << daemon.get("/readyz").body;
  const auto told = steady_clock::now();
  daemon.process().kill(SIGTERM);
  const auto end = daemon.process().wait(patience);
  const auto took = steady_clock::now() - told;
  server.resume();
  ASSERT_TRUE(end) << daemon.log();
  EXPECT_TRUE(end->success()) << daemon.log();
  EXPECT_LT(took, 15s) << "far less than the statement's time";
  EXPECT_TRUE(contains(daemon.log(),
                       "stopped before the rounds under way had ended reason=shutdown_timeout"))
      << daemon.log();
}

TEST_F(DaemonFaultsTest, ASecondSignalLeavesAtOnce) {
  auto daemon = start({"--shutdown-timeout", "1h", "--queue", "leasehold command-timeout=1h"});
  EXPECT_TRUE(eventually([&] { return ready(daemon); }, patience));
  server.pause();
  EXPECT_TRUE(eventually(
      [&] { return contains(daemon.get("/readyz").body, "a round has been under way for"); },
      patience));
  daemon.process().kill(SIGTERM);
  EXPECT_TRUE(eventually([&] { return daemon.logged("stopping signal=SIGTERM") == 1; }, patience));
  daemon.process().kill(SIGHUP);
  EXPECT_FALSE(daemon.process().wait(300ms))
      << "it waits for the round, whatever is to be reloaded";
  daemon.process().kill(SIGINT);
  const auto end = daemon.process().wait(patience);
  server.resume();
  ASSERT_TRUE(end) << daemon.log();
  EXPECT_TRUE(end->success()) << daemon.log();
  EXPECT_TRUE(contains(daemon.log(), "reason=second_signal")) << daemon.log();
}

TEST_F(DaemonFaultsTest, SigtermDuringARoundFinishesIt) {
  auto daemon = start({"--shutdown-timeout", "1h", "--queue", "leasehold command-timeout=1h"});
  EXPECT_TRUE(eventually([&] { return ready(daemon); }, patience));
  pqxx::connection connection{server.uri()};
  pqxx::work blocker{connection};
  blocker.exec("LOCK TABLE leasehold.tasks");
  EXPECT_TRUE(eventually(
      [&] {
        return sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leaseholdd' "
                   "AND wait_event_type = 'Lock'") == "1";
      },
      patience));
  blocker.exec(
      "INSERT INTO leasehold.tasks (type, payload, state, leased_by, lease_expiry) "
      "VALUES ('t', '{}', 'leased', 'crashed', now() - interval '1 s')");
  daemon.process().kill(SIGTERM);
  EXPECT_TRUE(eventually([&] { return daemon.logged("stopping signal=SIGTERM") == 1; }, patience));
  EXPECT_FALSE(daemon.process().wait(300ms)) << "it waits for the round";
  blocker.commit();
  const auto end = daemon.process().wait(patience);
  ASSERT_TRUE(end) << daemon.log();
  EXPECT_TRUE(end->success()) << daemon.log();
  EXPECT_EQ(sql("SELECT state FROM leasehold.tasks"), "pending") << "what was begun was done";
  EXPECT_TRUE(contains(daemon.log(), " stopped\n")) << daemon.log();
  EXPECT_EQ(daemon.logged("stopped before"), 0U) << daemon.log();
}

TEST_F(DaemonFaultsTest, ClientsThatSayNothingDoNotSilenceTheEndpoints) {
  const auto daemon = start();
  const int port = std::stoi(daemon.address().substr(daemon.address().rfind(':') + 1));
  std::vector<testing::FileDescriptor> silent;
  for (int i = 0; i < 100; ++i) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    silent.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    ::connect(silent.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  EXPECT_TRUE(eventually([&] { return daemon.get("/healthz").status == 200; }, patience));
}

TEST_F(DaemonFaultsTest, AReloadDoesNotWaitForAQueueThatHangs) {
  const testing::TempDir dir;
  const std::string path = (dir.path() / "conf").string();
  const auto write = [&](const std::string& interval) {
    std::ofstream(path) << "listen = 127.0.0.1:0\ndatabase = " << server.uri()
                        << "\ncommand-timeout = 1h\nsweep-interval = " << interval << "\n";
  };
  write("200ms");
  Leaseholdd daemon(LEASEHOLDD, {"--config", path, "--max-round-age", "1s"});
  EXPECT_TRUE(eventually([&] { return ready(daemon); }, patience));
  server.pause();
  EXPECT_TRUE(eventually(
      [&] { return contains(daemon.get("/readyz").body, "a round has been under way for"); },
      patience));
  write("300ms");
  daemon.process().kill(SIGHUP);
  EXPECT_TRUE(eventually([&] { return daemon.logged("configuration reloaded") == 1; }, patience))
      << daemon.log();
  EXPECT_EQ(daemon.status().at("queues").at(0).at("sweep_interval_s"), 0.3);
  server.resume();
  EXPECT_TRUE(eventually([&] { return ready(daemon); }, patience)) << daemon.log();
  daemon.process().kill(SIGTERM);
  const auto end = daemon.process().wait(patience);
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->success());
}

}  // namespace
}  // namespace leasehold
