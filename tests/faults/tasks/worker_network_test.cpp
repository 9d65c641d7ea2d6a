// A worker on a bad network, with a PostgreSQL that goes away, and with a store that falls silent.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "harness/temp_dir.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fault_proxy.hpp"
#include "tests/support/kept_log.hpp"
#include "tests/support/own_transaction.hpp"
#include "tests/support/running_worker.hpp"
#include "tests/support/signal.hpp"
#include "tests/support/sqlite_connection.hpp"
#include "tests/support/task_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::steady_clock;
using Then = FaultProxy::Then;

class WorkerNetworkTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { shared = std::make_unique<PostgresServer>(); }
  static void TearDownTestSuite() { shared.reset(); }
  void SetUp() override {
    sql("SET client_min_messages = warning; DROP SCHEMA IF EXISTS leasehold CASCADE");
    migrate(server.uri());
  }

  TaskQueueOptions options(std::chrono::milliseconds timeout = 10s) {
    TaskQueueOptions options;
    options.postgres.command_timeout = timeout;
    options.logger = logger;
    return options;
  }
  std::string sql(const std::string& statement) const { return server.run_sql(statement); }
  std::string rows(const std::string& what) const {
    return sql("SELECT " + what + " FROM " + PostgresTaskTest::every_task + " ORDER BY id");
  }

  static inline std::unique_ptr<PostgresServer> shared;
  PostgresServer& server = *shared;
  FaultProxy proxy{server.port()};
  const std::string bad_uri = PostgresServer::uri_through(proxy.port());
  std::shared_ptr<spdlog::logger> logger;
  std::shared_ptr<KeptLog> log;

  WorkerNetworkTest() { std::tie(logger, log) = KeptLog::make(); }
};

TEST_F(WorkerNetworkTest, ARestartIsSaidOnceAndWorkGoesOn) {
  TaskQueue queue{server.uri(), options()};
  Worker worker{queue, {.concurrency = 2, .poll_max = 100ms}};
  std::atomic<int> runs{0};
  Signal started;
  Signal go;
  worker.on("slow", [&](Task& task) {
    ++runs;
    started.set();
    EXPECT_TRUE(go.wait());
    EXPECT_EQ(task.stop_reason(), StopReason::none) << "the lease of 30 s outlives a restart";
  });
  worker.on("t", [](Task&) {});
  queue.enqueue({.type = "slow"});
  const RunningWorker running{worker};
  ASSERT_TRUE(started.wait());
  server.stop();
  ASSERT_TRUE(eventually([&] { return log->count("cannot reach its tasks") == 1; }, 60s));
  go.set();  // it ends while PostgreSQL is away
  EXPECT_TRUE(eventually([&] { return worker.stats().settling == 1; }, 60s))
      << "its completion is kept";
  server.start();
  ASSERT_TRUE(eventually([&] { return rows("state, attempts") == "completed|1"; }, 60s));
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(eventually([&] { return log->count("reaches its tasks again") == 1; }));
  EXPECT_EQ(log->count("cannot reach its tasks"), 1);
  TaskQueue other{server.uri()};
  other.enqueue({.type = "t"});
  EXPECT_TRUE(eventually([&] { return rows("state") == "completed\ncompleted"; }, 60s));
}

TEST_F(WorkerNetworkTest, AWorkerThatBeginsWithoutPostgresWaitsForIt) {
  proxy.refuse(true);
  TaskQueue queue{bad_uri, options()};
  Worker worker{queue};
  worker.on("t", [](Task&) {});
  const RunningWorker running{worker};
  ASSERT_TRUE(eventually([&] { return log->count("cannot reach its tasks") == 1; }, 60s));
  TaskQueue direct{server.uri()};
  direct.enqueue({.type = "t"});
  proxy.refuse(false);
  EXPECT_TRUE(eventually([&] { return rows("state") == "completed"; }, 60s));
}

TEST_F(WorkerNetworkTest, AWorkerWhoseListenerIsCutFindsTasksAllTheSame) {
  TaskQueue queue{server.uri(), options()};
  Worker worker{queue, {.poll_min = 1h, .poll_max = 1h}};
  worker.on("t", [](Task&) {});
  const RunningWorker running{worker};
  const std::string listeners = "FROM pg_stat_activity WHERE query LIKE 'LISTEN %'";
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(eventually([&] { return sql("SELECT count(*) " + listeners) == "1"; }, 60s));
    // Only this connection: nobody hears of the new task.
    sql("SELECT pg_terminate_backend(pid) " + listeners);
    queue.enqueue({.type = "t"});
    // It looks when it hears again, without waiting for an hour.
    ASSERT_TRUE(eventually([&] { return worker.stats().completed == std::uint64_t(i); }, 60s));
  }
  EXPECT_EQ(log->count("cannot reach its tasks"), 0) << "the other connections work";
}

TEST_F(WorkerNetworkTest, AWorkerWithoutTablesSaysSoAndBeginsWhenTheyAreThere) {
  sql("DROP SCHEMA leasehold CASCADE");
  TaskQueue queue{server.uri(), options()};
  Worker worker{queue};
  worker.on("t", [](Task&) {});
  const RunningWorker running{worker};
  ASSERT_TRUE(eventually([&] { return log->count("run migrate") == 1; }, 60s));
  migrate(server.uri());
  queue.enqueue({.type = "t"});
  EXPECT_TRUE(eventually([&] { return rows("state") == "completed"; }, 60s));
  EXPECT_EQ(log->count("worker refused"), 1) << "once, not with every try";
}

TEST_F(WorkerNetworkTest, ALostReplyToACompletionIsLookedUpAndNotDoneTwice) {
  for (const auto& retention : {Retention::keep_forever(), Retention::delete_at_once()}) {
    TaskQueue queue{bad_uri, options()};
    Worker worker{queue, {.concurrency = 1}};
    std::atomic<int> runs{0};
    worker.on("t", [&](Task&) { ++runs; }, {.retention = retention});
    const RunningWorker running{worker};
    proxy.swallow_next_reply(Then::cut, "leasehold complete");
    queue.enqueue({.type = "t"});
    ASSERT_TRUE(eventually([&] { return worker.stats().completed == 1; }, 60s));
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(worker.stats().stale_writes, 0U) << "it was ours";
    EXPECT_GE(queue.stats().outcomes_unknown, 1U);
  }
}

TEST_F(WorkerNetworkTest, LostRepliesToFailuresAndReleasesAreResolved) {
  TaskQueue queue{bad_uri, options()};
  Worker worker{queue, {.concurrency = 1}};
  worker.on("bad", [&](Task&) { throw std::runtime_error("no"); }, {.retry = Retry::after(1h)});
  worker.on("later", [&](Task&) { throw RetryLater(1h); });
  const RunningWorker running{worker};
  proxy.swallow_next_reply(Then::cut, "leasehold fail");
  queue.enqueue({.type = "bad"});
  ASSERT_TRUE(eventually([&] { return worker.stats().failed == 1; }, 60s));
  proxy.swallow_next_reply(Then::cut, "leasehold release");
  queue.enqueue({.type = "later"});
  ASSERT_TRUE(proxy.wait_swallowed(60s));
  ASSERT_TRUE(eventually([&] { return worker.stats().released >= 1; }, 60s));
  EXPECT_TRUE(eventually(
      [&] {
        return rows("state, attempts, run_at > now() + interval '50 min'") ==
               "pending|1|t\npending|0|t";
      },
      60s))
      << rows("state, attempts, run_at");
  EXPECT_EQ(worker.stats().stale_writes, 0U);
}

TEST_F(WorkerNetworkTest, OneFailedRenewalIsNoLoss) {
  TaskQueue queue{bad_uri, options()};
  Worker worker{queue, {.concurrency = 1, .lease = 6s}};
  Signal started;
  Signal go;
  worker.on("t", [&](Task& task) {
    started.set();
    EXPECT_TRUE(go.wait());
    EXPECT_EQ(task.stop_reason(), StopReason::none);
  });
  queue.enqueue({.type = "t"});
  const RunningWorker running{worker};
  ASSERT_TRUE(started.wait());
  proxy.swallow_next_request(Then::cut, "leasehold extend");
  ASSERT_TRUE(proxy.wait_swallowed(60s));
  const auto renewals = worker.stats().renewals;
  ASSERT_TRUE(eventually([&] { return worker.stats().renewals > renewals; }, 60s));
  go.set();
  EXPECT_TRUE(eventually([&] { return rows("state, attempts") == "completed|1"; }, 60s));
}

/// A store that can be made to fall silent, so that calls hang: a network that carries nothing, or
/// a file that somebody keeps locked.
class WorkerSilenceTest : public WorkerNetworkTest,
                          public ::testing::WithParamInterface<StoreKind> {
 public:
  static constexpr StoreKind server_kind = StoreKind::postgres;

 protected:
  static bool in_postgres() { return GetParam() == StoreKind::postgres; }
  std::string path() const { return (dir.path() / "tasks.db").string(); }
  std::string uri() const { return in_postgres() ? bad_uri : "sqlite:" + path(); }
  /// Of those who are not concerned.
  std::string direct_uri() const { return in_postgres() ? server.uri() : uri(); }

  TaskQueueOptions patient_for(std::chrono::milliseconds timeout) {
    auto with = options(timeout);
    with.sqlite.timeout = timeout;
    return with;
  }

  void fall_silent() {
    if (in_postgres()) return proxy.blackhole(true);
    lock = connect_to(path());
    OwnTransaction{lock.get()}.execute("BEGIN IMMEDIATE");
  }
  void speak() {
    proxy.blackhole(false);
    lock.reset();
  }

  const TempDir dir;
  SqliteConnection lock;
};
ON_STORES_BETWEEN_PROCESSES(WorkerSilenceTest);

TEST_P(WorkerSilenceTest, EndsTrustAndTheHandlerIsTold) {
  TaskQueue queue{uri(), patient_for(10s)};
  Worker worker{queue, {.concurrency = 1, .lease = 3s, .wake_up = WakeUp::poll}};
  Signal started;
  Signal told;
  worker.on("t", [&](Task& task) {
    started.set();
    EXPECT_TRUE(wait_for_stop(task.stop_token()));
    EXPECT_EQ(task.stop_reason(), StopReason::lease_lost);
    told.set();
    EXPECT_EQ(task.progress("1"), LeaseWrite::stale) << "refused without the store";
  });
  TaskQueue direct{direct_uri()};
  const auto task = direct.enqueue({.type = "t"});
  const RunningWorker running{worker};
  ASSERT_TRUE(started.wait());
  fall_silent();
  ASSERT_TRUE(told.wait());
  // Trust ends before the lease: it can not have been taken back by then.
  const auto seen = direct.get(task.id).value();
  EXPECT_EQ(seen.state, TaskState::leased);
  EXPECT_GT(seen.lease_expiry, std::chrono::system_clock::now() - 5s);
  EXPECT_TRUE(eventually([&] { return worker.stats().stale_writes == 2; }));
  speak();
}

TEST_P(WorkerSilenceTest, AStopKeepsItsCeiling) {
  TaskQueue queue{uri(), patient_for(2s)};
  Worker worker{queue, {.concurrency = 1, .stop_grace = 500ms}};
  Signal started;
  worker.on("t", [&](Task& task) {
    started.set();
    EXPECT_TRUE(wait_for_stop(task.stop_token()));
  });
  TaskQueue direct{direct_uri()};
  direct.enqueue({.type = "t"});
  RunningWorker running{worker};
  ASSERT_TRUE(started.wait());
  fall_silent();
  const auto asked = steady_clock::now();
  running.stop();
  ASSERT_TRUE(running.ended());
  // Grace 0.5 s, 5 s for outcomes, command_timeout 2 s, connect_timeout 5 s.
  EXPECT_LT(steady_clock::now() - asked, 12500ms);
  EXPECT_EQ(log->count("outcomes not written"), 1);
  speak();
}

}  // namespace
}  // namespace leasehold::testing
