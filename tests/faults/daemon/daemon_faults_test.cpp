// leaseholdd while its store hangs, is down, comes back, or was never there.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fstream>
#include <pqxx/pqxx>

#include "harness/postgres_server.hpp"
#include "harness/temp_dir.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/leaseholdd.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/own_transaction.hpp"
#include "tests/support/signal.hpp"
#include "tests/support/sqlite_connection.hpp"
#include "tests/support/task_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::steady_clock;

const std::string queue_label = "{queue=\"leasehold\"}";

/// A queue in a store that can be made to hang: a server that is stopped, or a file that somebody
/// keeps locked.
class Place {
 public:
  /// Without a server: in a file.
  explicit Place(PostgresServer* server) : server_(server) { migrate(uri()); }

  std::string uri() const { return server_ ? server_->uri() : "sqlite:" + path(); }

  void hang() {
    if (server_) return server_->pause();
    locked_ = connect_to(path());
    OwnTransaction{locked_.get()}.execute("BEGIN IMMEDIATE");
  }
  void resume() {
    if (server_) return server_->resume();
    locked_.reset();
  }

  /// Leaves a task whose worker was killed.
  TaskId leave_leased(std::chrono::milliseconds ends_after) const {
    TaskQueue queue{uri()};
    const auto id = queue.enqueue({.type = "t"}).id;
    for (auto& lease : queue.lease({.types = {"t"}, .duration = ends_after})) lease.abandon();
    return id;
  }
  TaskState state_of(TaskId id) const { return TaskQueue{uri()}.get(id)->state; }

  /// Lets all leases end in a transaction which keeps everybody else waiting, and calls `meanwhile`
  /// before its end.
  template <class Meanwhile>
  void expire_slowly(const Meanwhile& meanwhile) const {
    if (server_) {
      for (bool begun = false; !begun;) {
        pqxx::connection connection{uri()};
        pqxx::work transaction{connection};
        transaction.exec(
            "LOCK TABLE leasehold.tasks; UPDATE leasehold.tasks SET lease_expiry = now() - "
            "interval "
            "'1 s'");
        // Rather than a round that has recovered already, and waits with a later statement.
        begun = contains(blocked_statement(), "leasehold recover");
        if (!begun) continue;
        meanwhile();
        transaction.commit();
      }
    } else {
      const auto connection = connect_to(path());
      const OwnTransaction transaction{connection.get()};
      transaction.execute("BEGIN IMMEDIATE; UPDATE task_queue SET lease_deadline = 1");
      meanwhile();
      transaction.execute("COMMIT");
    }
  }

 private:
  /// That of whoever waits for a lock.
  std::string blocked_statement() const {
    std::string statement;
    EXPECT_TRUE(eventually(
        [&] {
          pqxx::connection connection{uri()};
          pqxx::nontransaction look{connection};
          const auto rows =
              look.exec("SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
          if (!rows.empty()) statement = rows[0][0].c_str();
          return !rows.empty();
        },
        long_patience));
    return statement;
  }

  std::string path() const { return (dir_.path() / "tasks.db").string(); }

  PostgresServer* const server_;
  const TempDir dir_;
  SqliteConnection locked_;
};

class DaemonFaultsTest : public ::testing::TestWithParam<StoreKind> {
 public:
  static constexpr StoreKind server_kind = StoreKind::postgres;

 protected:
  static void TearDownTestSuite() { shared.reset(); }
  void SetUp() override {
    if (in_postgres()) {
      if (!shared) shared = std::make_unique<PostgresServer>();
      sql("SET client_min_messages = warning; DROP SCHEMA IF EXISTS leasehold CASCADE");
    }
    place.emplace(in_postgres() ? shared.get() : nullptr);
  }

  static bool in_postgres() { return GetParam() == StoreKind::postgres; }

  Leaseholdd start(std::vector<std::string> arguments = {}) const {
    arguments.insert(arguments.end(), {"--database", place->uri(), "--round-interval", "200ms",
                                       "--command-timeout", in_postgres() ? "5s" : "2s",
                                       "--connect-timeout", "5s", "--max-round-age", "2s"});
    return Leaseholdd(LEASEHOLDD, arguments);
  }
  static std::string sql(const std::string& statement) { return shared->run_sql(statement); }

  static bool ready(const Leaseholdd& daemon) { return daemon.get("/readyz").status == 200; }

  /// Whatever the store does, the endpoints answer, and say the same.
  static void expect_out_of_order(const Leaseholdd& daemon, const std::string& complaint) {
    // The first words may be others: that a connection was lost.
    EXPECT_TRUE(eventually(
        [&] {
          return daemon.metric("leasehold_database_up" + queue_label) == 0 &&
                 contains(daemon.get("/readyz").body, complaint);
        },
        long_patience))
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
    EXPECT_TRUE(eventually([&] { return ready(daemon); }, long_patience)) << daemon.log();
    EXPECT_EQ(daemon.metric("leasehold_database_up" + queue_label), 1);
    EXPECT_TRUE(daemon.status().at("queues").at(0).at("problem").is_null());
  }
  void expect_recovery(const Leaseholdd& daemon) const {
    const TaskId id = place->leave_leased(100ms);
    EXPECT_TRUE(
        eventually([&] { return place->state_of(id) == TaskState::pending; }, long_patience))
        << daemon.log();
  }
  static void expect_round_under_way(const Leaseholdd& daemon) {
    EXPECT_TRUE(eventually(
        [&] { return contains(daemon.get("/readyz").body, "a round has been under way for"); },
        long_patience))
        << daemon.get("/readyz").body;
  }

  static inline std::unique_ptr<PostgresServer> shared;
  std::optional<Place> place;
};
ON_STORES_BETWEEN_PROCESSES(DaemonFaultsTest);

/// A server can also be away, and without tables.
class ServerFaultsTest : public DaemonFaultsTest {
 protected:
  void SetUp() override {
    DaemonFaultsTest::SetUp();
    server = shared.get();
  }

  PostgresServer* server = nullptr;
};
ON_STORES(ServerFaultsTest, StoreKind::postgres);

TEST_P(DaemonFaultsTest, EndpointsAnswerWhileTheStoreHangsAndRoundsGoOnAfterwards) {
  const auto daemon = start();
  expect_in_order(daemon);
  place->hang();
  expect_out_of_order(daemon,
                      in_postgres() ? "recovery: postgresql://127.0.0.1" : "recovery: sqlite:");
  place->resume();
  expect_in_order(daemon);
  expect_recovery(daemon);
  EXPECT_EQ(daemon.logged("round failed, will keep trying"), 1U) << daemon.log();
  EXPECT_EQ(daemon.logged("round works again"), 1U) << daemon.log();
}

TEST_P(ServerFaultsTest, EndpointsAnswerWhilePostgresIsDownAndRoundsGoOnAfterwards) {
  const auto daemon = start();
  expect_in_order(daemon);
  server->kill();
  expect_out_of_order(daemon, "Connection refused");
  EXPECT_TRUE(eventually(
      [&] {
        return daemon.metric("leasehold_rounds_total{queue=\"leasehold\",outcome=\"failed\"}") >= 5;
      },
      long_patience));
  server->start();
  expect_in_order(daemon);
  expect_recovery(daemon);
  EXPECT_EQ(daemon.logged("round failed, will keep trying"), 1U) << "said once, not each time\n"
                                                                 << daemon.log();
  EXPECT_EQ(daemon.logged("round works again"), 1U) << daemon.log();
}

TEST_P(ServerFaultsTest, ALockedTableCostsNoMoreThanItsOneConnection) {
  const auto daemon = start({"--queue", "leasehold command-timeout=500ms"});
  expect_in_order(daemon);
  {
    pqxx::connection connection{server->uri()};
    pqxx::work transaction{connection};
    transaction.exec("LOCK TABLE leasehold.tasks");
    const std::string failed = "leasehold_rounds_total{queue=\"leasehold\",outcome=\"failed\"}";
    EXPECT_TRUE(eventually([&] { return daemon.metric(failed) >= 5; }, long_patience));
    const std::string ours = "pg_stat_activity WHERE application_name = 'leaseholdd'";
    EXPECT_TRUE(eventually([&] { return sql("SELECT count(*) FROM " + ours) == "1"; }))
        << "statements of earlier rounds still wait: " << sql("SELECT query FROM " + ours);
  }
  expect_in_order(daemon);
  expect_recovery(daemon);
}

TEST_P(ServerFaultsTest, ItStartsBeforePostgresDoes) {
  server->stop();
  const auto daemon = start();
  EXPECT_EQ(daemon.get("/healthz").status, 200);
  EXPECT_TRUE(eventually([&] { return contains(daemon.get("/readyz").body, "Connection refused"); },
                         long_patience));
  EXPECT_EQ(daemon.get("/readyz").status, 503);
  EXPECT_TRUE(daemon.status().at("queues").at(0).at("measured").is_null());
  EXPECT_TRUE(daemon.status().at("queues").at(0).at("last_round").is_null());
  server->start();
  expect_in_order(daemon);
  EXPECT_EQ(daemon.logged("round failed, will keep trying"), 1U) << daemon.log();
}

TEST_P(ServerFaultsTest, ItStartsBeforeTheSchemaIsThereAndSaysMigrate) {
  sql("DROP SCHEMA leasehold CASCADE");
  const auto daemon = start();
  EXPECT_TRUE(eventually([&] { return contains(daemon.get("/readyz").body, "run migrate"); },
                         long_patience));
  EXPECT_TRUE(eventually([&] { return daemon.logged("hint=\"run migrate\"") > 0; }, long_patience))
      << daemon.log();
  migrate(server->uri());
  expect_in_order(daemon);
}

TEST_P(DaemonFaultsTest, AQueueWhoseStoreHangsHoldsBackNoOther) {
  const auto another = in_postgres() ? std::make_unique<PostgresServer>() : nullptr;
  Place other{another.get()};
  const auto daemon = start({"--queue", "good", "--queue", "hangs database=" + other.uri()});
  EXPECT_TRUE(eventually([&] { return ready(daemon); }, long_patience)) << daemon.log();
  other.hang();
  EXPECT_TRUE(eventually([&] { return !ready(daemon); }, long_patience));
  expect_recovery(daemon);
  EXPECT_TRUE(eventually(
      [&] {
        const std::string body = daemon.get("/readyz").body;
        return contains(body, "queue hangs") && !contains(body, "queue good");
      },
      long_patience))
      << daemon.get("/readyz").body;
  other.resume();
  EXPECT_TRUE(eventually([&] { return ready(daemon); }, long_patience));
}

TEST_P(DaemonFaultsTest, SigtermLeavesWithinTheShutdownTimeoutWhileTheStoreHangs) {
  // A statement may take a minute; the daemon does not wait for that.
  auto daemon = start({"--shutdown-timeout", "1s", "--queue", "leasehold command-timeout=1m"});
  EXPECT_TRUE(eventually([&] { return ready(daemon); }, long_patience));
  place->hang();
  expect_round_under_way(daemon);
  const auto told = steady_clock::now();
  daemon.process().kill(SIGTERM);
  const auto end = daemon.process().wait(long_patience);
  const auto took = steady_clock::now() - told;
  place->resume();
  ASSERT_TRUE(end) << daemon.log();
  EXPECT_TRUE(end->success()) << daemon.log();
  EXPECT_LT(took, 15s) << "far less than the statement's time";
  EXPECT_TRUE(contains(daemon.log(),
                       "stopped before the rounds under way had ended reason=shutdown_timeout"))
      << daemon.log();
}

TEST_P(DaemonFaultsTest, ASecondSignalLeavesAtOnce) {
  auto daemon = start({"--shutdown-timeout", "1h", "--queue", "leasehold command-timeout=1h"});
  EXPECT_TRUE(eventually([&] { return ready(daemon); }, long_patience));
  place->hang();
  expect_round_under_way(daemon);
  daemon.process().kill(SIGTERM);
  EXPECT_TRUE(
      eventually([&] { return daemon.logged("stopping signal=SIGTERM") == 1; }, long_patience));
  daemon.process().kill(SIGHUP);
  EXPECT_FALSE(daemon.process().wait(300ms))
      << "it waits for the round, whatever is to be reloaded";
  daemon.process().kill(SIGINT);
  const auto end = daemon.process().wait(long_patience);
  place->resume();
  ASSERT_TRUE(end) << daemon.log();
  EXPECT_TRUE(end->success()) << daemon.log();
  EXPECT_TRUE(contains(daemon.log(), "reason=second_signal")) << daemon.log();
}

TEST_P(DaemonFaultsTest, SigtermDuringARoundFinishesIt) {
  auto daemon = start({"--shutdown-timeout", "1h", "--queue", "leasehold command-timeout=1h"});
  EXPECT_TRUE(eventually([&] { return ready(daemon); }, long_patience));
  const TaskId id = place->leave_leased(1h);
  place->expire_slowly([&] {
    expect_round_under_way(daemon);
    daemon.process().kill(SIGTERM);
    EXPECT_TRUE(
        eventually([&] { return daemon.logged("stopping signal=SIGTERM") == 1; }, long_patience));
    EXPECT_FALSE(daemon.process().wait(300ms)) << "it waits for the round";
  });
  const auto end = daemon.process().wait(long_patience);
  ASSERT_TRUE(end) << daemon.log();
  EXPECT_TRUE(end->success()) << daemon.log();
  EXPECT_EQ(place->state_of(id), TaskState::pending) << "what was begun was done";
  EXPECT_TRUE(contains(daemon.log(), " stopped\n")) << daemon.log();
  EXPECT_EQ(daemon.logged("stopped before"), 0U) << daemon.log();
}

TEST_P(DaemonFaultsTest, ClientsThatSayNothingDoNotSilenceTheEndpoints) {
  const auto daemon = start();
  const int port = std::stoi(daemon.address().substr(daemon.address().rfind(':') + 1));
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 100; ++i) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    silent.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    ::connect(silent.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  EXPECT_TRUE(eventually([&] { return daemon.get("/healthz").status == 200; }, long_patience));
}

TEST_P(DaemonFaultsTest, AReloadDoesNotWaitForAQueueThatHangs) {
  const TempDir dir;
  const std::string path = (dir.path() / "conf").string();
  const auto write = [&](const std::string& interval) {
    std::ofstream(path) << "listen = 127.0.0.1:0\ndatabase = " << place->uri()
                        << "\ncommand-timeout = 1h\nround-interval = " << interval << "\n";
  };
  write("200ms");
  Leaseholdd daemon(LEASEHOLDD, {"--config", path, "--max-round-age", "1s"});
  EXPECT_TRUE(eventually([&] { return ready(daemon); }, long_patience));
  place->hang();
  expect_round_under_way(daemon);
  write("300ms");
  daemon.process().kill(SIGHUP);
  EXPECT_TRUE(
      eventually([&] { return daemon.logged("configuration reloaded") == 1; }, long_patience))
      << daemon.log();
  EXPECT_EQ(daemon.status().at("queues").at(0).at("round_interval_s"), 0.3);
  place->resume();
  EXPECT_TRUE(eventually([&] { return ready(daemon); }, long_patience)) << daemon.log();
  daemon.process().kill(SIGTERM);
  const auto end = daemon.process().wait(long_patience);
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->success());
}

}  // namespace
}  // namespace leasehold::testing
