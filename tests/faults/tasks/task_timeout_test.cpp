// A PostgreSQL that is slow, locked, full or read-only: a statement ends with its time-out, on the
// server too, and the queue recovers by itself.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <leasehold/tasks.hpp>
#include <memory>
#include <pqxx/pqxx>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "harness/certificates.hpp"
#include "harness/postgres_server.hpp"
#include "harness/process.hpp"
#include "harness/temp_dir.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fault_proxy.hpp"
#include "tests/support/kept_log.hpp"
#include "tests/support/running_worker.hpp"
#include "tests/support/signal.hpp"
#include "tests/support/test_namespace.hpp"
#include "tests/support/together.hpp"

namespace leasehold::testing {
namespace {

using Then = FaultProxy::Then;

class TaskTimeoutTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { shared = std::make_unique<PostgresServer>(); }
  static void TearDownTestSuite() { shared.reset(); }
  void SetUp() override {
    server.run_sql("SET client_min_messages = warning; DROP SCHEMA IF EXISTS leasehold CASCADE");
    migrate(server.uri());
  }

  /// Under a name that no other test has, so that its connections can be counted.
  std::string uri() const { return server.uri() + "?application_name=" + name; }
  int count(const std::string& from) { return count(outside, from); }
  static int count(pqxx::connection& connection, const std::string& from) {
    pqxx::nontransaction look{connection};
    return look.exec("SELECT count(*) FROM " + from)[0][0].as<int>();
  }
  std::string our_backends() const {
    return "pg_stat_activity WHERE application_name = '" + name + "'";
  }
  /// Makes as many connections as the queue may have. They are idle then.
  void use_all_connections(TaskQueue& queue, int connections) {
    pqxx::connection other{server.uri()};
    pqxx::work lock{other};
    lock.exec("LOCK TABLE leasehold.tasks IN ACCESS EXCLUSIVE MODE");
    std::vector<std::jthread> callers;
    for (int i = 0; i < connections; ++i) {
      callers.emplace_back([&] { works([&] { queue.get(TaskId{1}); }); });
    }
    EXPECT_TRUE(eventually([&] { return count(our_backends()) == connections; }, 60s));
    lock.commit();
  }
  /// Whether a call succeeds.
  template <class Call>
  static bool works(const Call& call) {
    try {
      call();
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  static inline std::unique_ptr<PostgresServer> shared;
  PostgresServer& server = *shared;
  pqxx::connection outside{server.uri()};
  const std::string name =
      ::testing::UnitTest::GetInstance()->current_test_info()->name() + std::string("1");
};

TEST_F(TaskTimeoutTest, ALockedTableCostsNoMoreBackendsThanThePoolHas) {
  constexpr int connections = 2;
  TaskQueue queue{uri(), {.postgres = {.connections = connections, .command_timeout = 1s}}};
  queue.enqueue({.type = "t"});
  pqxx::connection other{server.uri()};
  pqxx::work lock{other};
  lock.exec("LOCK TABLE leasehold.tasks IN ACCESS EXCLUSIVE MODE");

  int most = 0;
  std::atomic<int> callers{4};
  std::jthread counting([&] {
    pqxx::connection looking{server.uri()};
    while (callers > 0) most = std::max(most, count(looking, our_backends()));
  });
  together(4, [&](int) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_THROW(queue.lease({.types = {"t"}}), Unavailable) << "it did not happen";
      EXPECT_THROW(queue.list({.state = TaskState::pending}), Unavailable) << "cancelled";
    }
    --callers;
  });
  counting.join();
  EXPECT_LE(most, connections);
  EXPECT_GT(most, 0);

  lock.commit();
  // Everything that could still commit has done so.
  EXPECT_TRUE(eventually([&] { return count(our_backends() + " AND state <> 'idle'") == 0; }, 60s));
  EXPECT_EQ(count("leasehold.tasks WHERE state = 'leased'"), 0) << "leased for nobody";
  EXPECT_EQ(queue.lease({.types = {"t"}}).size(), 1U) << "no cancellation is left over";
}

/// Stops each backend that waits for a lock, so that it answers no cancellation either.
class StuckBackends {
 public:
  StuckBackends(PostgresServer& server, const std::string& application)
      : server_(server),
        looking_(server.uri()),
        thread_([this, application](const std::stop_token& stop) {
          std::set<pid_t> stopped;
          while (!stop.stop_requested()) {
            pqxx::nontransaction look{looking_};
            const auto rows = look.exec(
                "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
                "application_name = '" +
                application + "'");
            for (const auto& row : rows) {
              const auto pid = row[0].as<pid_t>();
              if (stopped.contains(pid) || !server_.pause_backend(pid)) continue;
              stopped.insert(pid);
              ++count_;
            }
          }
        }) {}
  ~StuckBackends() {
    stop();
    server_.resume();
  }

  int count() const { return count_; }
  /// Stops no further ones.
  void stop() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  PostgresServer& server_;
  pqxx::connection looking_;
  std::atomic<int> count_{0};
  std::jthread thread_;  // last: it uses everything above
};

// A backend that waits for a disk that hangs answers no cancellation. Another one in its place
// would get stuck as well.
TEST_F(TaskTimeoutTest, StuckBackendsAreNotReplacedAgainAndAgain) {
  constexpr int connections = 3;
  constexpr auto time_out = 300ms;
  TaskQueue queue{uri(), {.postgres = {.connections = connections, .command_timeout = time_out}}};
  const TaskId id = queue.enqueue({.type = "t"}).id;
  pqxx::connection other{server.uri()};
  pqxx::work lock{other};
  lock.exec("LOCK TABLE leasehold.tasks IN ACCESS EXCLUSIVE MODE");
  StuckBackends stuck{server, name};
  std::atomic<bool> said{false};
  int most = 0;
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 2 * connections; ++i) {
      callers.emplace_back([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          try {
            queue.get(id);
          } catch (const Unavailable& error) {
            if (std::string(error.what()).find("do not answer") != std::string::npos) said = true;
            std::this_thread::sleep_for(5ms);
          } catch (const OutcomeUnknown&) {
          }
        }
      });
    }
    EXPECT_TRUE(eventually([&] { return stuck.count() > connections && said; }, 60s));
    // Time for ten more of each place. The pauses allow three in all.
    const auto end = std::chrono::steady_clock::now() + 15 * time_out;
    while (std::chrono::steady_clock::now() < end) {
      most = std::max(most, count(our_backends()));
      std::this_thread::sleep_for(10ms);
    }
    EXPECT_LE(most, connections + 1 + 3);
    EXPECT_GT(most, connections) << "it keeps trying";
    stuck.stop();
    lock.commit();
    server.resume();
    EXPECT_TRUE(eventually([&] { return works([&] { queue.get(id); }); }));
    EXPECT_TRUE(eventually([&] { return count(our_backends()) <= connections; }, 60s));
  }
  pqxx::work again{other};
  again.exec("LOCK TABLE leasehold.tasks IN ACCESS EXCLUSIVE MODE");
  TaskQueue* const all = &queue;
  std::vector<std::jthread> callers;
  for (int i = 0; i < connections; ++i) {
    callers.emplace_back([=](const std::stop_token& stop) {
      while (!stop.stop_requested()) works([=] { all->get(id); });
    });
  }
  EXPECT_TRUE(eventually([&] { return count(our_backends()) == connections; }))
      << "every place can be used again";
  again.commit();
}

/// Makes a server offer TLS, with a certificate that nobody knows.
void offer_tls(const PostgresServer& server) {
  Certificates certificates;
  const auto pair = certificates.issue();
  const auto place = [&](const std::filesystem::path& from, const char* name) {
    const auto to = server.socket_dir() / name;
    std::filesystem::copy_file(from, to);
    std::filesystem::permissions(to, std::filesystem::perms::owner_read);
    if (const auto user = unprivileged_user()) {
      EXPECT_EQ(::chown(to.c_str(), user->uid, user->gid), 0);
    }
    return to.string();
  };
  for (const auto& setting :
       {"ssl_cert_file = '" + place(pair.certificate, "cert") + "'",
        "ssl_key_file = '" + place(pair.key, "key") + "'", std::string("ssl = on")}) {
    server.run_sql("ALTER SYSTEM SET " + setting);
  }
  server.run_sql("SELECT pg_reload_conf()");
}

// The renewals of a worker have one connection, and must not wait for a backend that is stuck.
// Sockets of each kind tell when it is done.
TEST_F(TaskTimeoutTest, APoolOfOneTriesAnotherConnectionAtOnce) {
  PostgresServer own;
  migrate(own.uri());
  offer_tls(own);
  const std::string tcp = own.uri() + "?application_name=" + name;
  const std::string unix_socket = "postgresql:///postgres?host=" + own.socket_dir().string() +
                                  "&port=" + std::to_string(own.port()) +
                                  "&user=postgres&application_name=" + name;
  pqxx::connection looking{own.uri() + "?sslmode=disable"};
  for (const auto& way : {tcp + "&sslmode=disable", tcp + "&sslmode=require", unix_socket}) {
    ASSERT_TRUE(eventually(
        [&] {
          return works([&] { TaskQueue{way}.health(); }) && count(looking, our_backends()) == 0;
        },
        60s))
        << way;
    TaskQueue queue{way, {.postgres = {.connections = 1, .command_timeout = 5s}}};
    const TaskId id = queue.enqueue({.type = "t"}).id;
    pqxx::connection other{own.uri()};
    pqxx::work lock{other};
    lock.exec("LOCK TABLE leasehold.tasks IN ACCESS EXCLUSIVE MODE");
    StuckBackends stuck{own, name};
    EXPECT_THROW(queue.get(id), OutcomeUnknown) << way;
    EXPECT_EQ(stuck.count(), 1);
    stuck.stop();
    lock.commit();
    EXPECT_NO_THROW(queue.get(id)) << way;
    EXPECT_EQ(count(looking, our_backends()), 2) << "one is stuck: " << way;
    own.resume();
    EXPECT_TRUE(eventually([&] { return count(looking, our_backends()) == 1; }, 60s)) << way;
  }
}

// A pooler may lose requests to cancel. The statement then ends by itself, and is not executed for
// nobody when the lock is gone.
TEST_F(TaskTimeoutTest, ALeaseThatCanNotBeCancelledEndsAllTheSame) {
  FaultProxy proxy{server.port()};
  TaskQueue queue{
      PostgresServer::uri_through(proxy.port()) + "?application_name=" + name,
      {.postgres = {.connections = 1, .command_timeout = 500ms}, .recovery = std::nullopt}};
  queue.enqueue({.type = "t"});
  pqxx::connection other{server.uri()};
  pqxx::work lock{other};
  lock.exec("LOCK TABLE leasehold.tasks IN ACCESS EXCLUSIVE MODE");
  proxy.swallow_next_request(Then::hang, "\x04\xd2\x16\x2e");
  EXPECT_THROW(queue.lease({.types = {"t"}}), Unavailable);
  EXPECT_TRUE(
      eventually([&] { return count(our_backends() + " AND wait_event_type = 'Lock'") == 0; }, 60s))
      << "nobody waits for the lock any more";
  lock.commit();
  EXPECT_EQ(count("leasehold.tasks WHERE state = 'leased'"), 0);
}

// What a busy hour needed is not kept for ever.
TEST_F(TaskTimeoutTest, UnusedConnectionsAreClosed) {
  TaskQueue queue{uri(), {.postgres = {.connections = 3, .idle_timeout = 300ms}}};
  queue.enqueue({.type = "t"});
  {
    pqxx::connection other{server.uri()};
    pqxx::work lock{other};
    lock.exec("LOCK TABLE leasehold.tasks IN ACCESS EXCLUSIVE MODE");
    std::vector<std::jthread> callers;
    for (int i = 0; i < 3; ++i) callers.emplace_back([&] { EXPECT_TRUE(queue.get(TaskId{1})); });
    EXPECT_TRUE(eventually([&] { return count(our_backends()) == 3; }));
    lock.commit();
  }
  EXPECT_TRUE(eventually([&] {
    queue.get(TaskId{1});
    return count(our_backends()) == 1;
  })) << "one is enough for what is left to do";
  EXPECT_TRUE(eventually([&] { return count(our_backends()) == 0; }));
  EXPECT_TRUE(queue.get(TaskId{1})) << "it connects again";
}

// The answer has come, but the cancellation hangs on the way. Until that is given up, the
// connection is neither used again nor replaced by another.
TEST_F(TaskTimeoutTest, AConnectionKeepsItsPlaceUntilItsCancellationIsOver) {
  FaultProxy proxy{server.port()};
  TaskQueue queue{PostgresServer::uri_through(proxy.port()) + "?application_name=" + name,
                  {.postgres = {.connections = 1, .command_timeout = 2s}}};
  const TaskId id = queue.enqueue({.type = "t"}).id;
  pqxx::connection other{server.uri()};
  pqxx::work lock{other};
  lock.exec("LOCK TABLE leasehold.tasks IN ACCESS EXCLUSIVE MODE");
  proxy.swallow_next_request(Then::hang, "\x04\xd2\x16\x2e");  // how a request to cancel begins
  std::atomic<bool> one_is_back{false};
  std::jthread one([&] {
    works([&] { queue.get(id); });
    one_is_back = true;
  });
  ASSERT_TRUE(proxy.wait_swallowed());
  lock.commit();
  std::atomic<bool> two_is_back{false};
  std::jthread two([&] {
    EXPECT_NO_THROW(queue.get(id));
    two_is_back = true;
  });
  int most = 0;
  while (!two_is_back) {
    const int now = count(our_backends());
    if (!one_is_back) most = std::max(most, now);  // later the old one may linger for a moment
  }
  EXPECT_EQ(most, 1);
}

TEST_F(TaskTimeoutTest, ACancellationHitsNoOtherStatement) {
  constexpr auto time_out = 100ms;
  TaskQueue queue{uri(), {.postgres = {.connections = 1, .command_timeout = time_out}}};
  const TaskId id = queue.enqueue({.type = "t"}).id;
  for (int i = 0; i < 30; ++i) {
    pqxx::connection other{server.uri()};
    pqxx::work lock{other};
    lock.exec("LOCK TABLE leasehold.tasks IN ACCESS EXCLUSIVE MODE");
    std::jthread unlocking([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds{85 + i});  // about when it is cancelled
      lock.commit();
    });
    for (int call = 0; call < 4; ++call) {
      const auto begun = std::chrono::steady_clock::now();
      try {
        queue.get(id);
      } catch (const Unavailable& error) {
        EXPECT_GE(std::chrono::steady_clock::now() - begun, time_out)
            << "cancelled in place of another: " << error.what();
      } catch (const OutcomeUnknown&) {
      }
    }
  }
}

TEST_F(TaskTimeoutTest, SomebodyElsesCancellationIsARefusal) {
  TaskQueue queue{uri(), {.postgres = {.connections = 1, .command_timeout = 60s}}};
  pqxx::connection other{server.uri()};
  pqxx::work lock{other};
  lock.exec("LOCK TABLE leasehold.tasks IN ACCESS EXCLUSIVE MODE");
  std::jthread calling([&] { EXPECT_THROW(queue.get(TaskId{1}), ServerRefused); });
  EXPECT_TRUE(eventually(
      [&] { return count(our_backends() + " AND wait_event_type = 'Lock'") == 1; }, 60s));
  EXPECT_EQ(count("(SELECT pg_cancel_backend(pid) FROM " + our_backends() + ") AS cancelled"), 1);
}

TEST_F(TaskTimeoutTest, AfterASilentHostIdleConnectionsAreNotTriedOneByOne) {
  constexpr int connections = 3;
  FaultProxy proxy{server.port()};
  TaskQueue queue{PostgresServer::uri_through(proxy.port()) + "?application_name=" + name,
                  {.postgres = {.connections = connections,
                                .command_timeout = 5s,
                                .idle_timeout = 1h}}};  // which would close them too
  use_all_connections(queue, connections);
  ASSERT_EQ(count(our_backends()), connections) << "idle now";
  proxy.blackhole(true);
  EXPECT_THROW(queue.enqueue({.type = "t"}), OutcomeUnknown);
  proxy.blackhole(false);
  EXPECT_TRUE(eventually([&] { return count(our_backends()) == 0; }, 60s))
      << "all of them were closed";
  EXPECT_TRUE(eventually([&] { return works([&] { queue.enqueue({.type = "t"}); }); }, 60s));
}

// A reset, or the end of tcp_user_timeout: nothing says why the connection is lost.
TEST_F(TaskTimeoutTest, AConnectionThatIsLostWithoutAWordTellsOfTheOthersAndOfTheHost) {
  constexpr int connections = 3;
  FaultProxy proxy{server.port()};
  FaultProxy next{server.port()};
  const std::string both =
      "127.0.0.1:" + std::to_string(proxy.port()) + ",127.0.0.1:" + std::to_string(next.port());
  TaskQueue queue{"postgresql://postgres@" + both + "/postgres?application_name=" + name,
                  {.postgres = {.connections = connections, .idle_timeout = 1h}}};
  use_all_connections(queue, connections);
  ASSERT_EQ(proxy.accepted(), std::size_t{connections});
  proxy.swallow_next_request(Then::cut);
  EXPECT_THROW(queue.enqueue({.type = "t"}), OutcomeUnknown);
  EXPECT_TRUE(eventually([&] { return count(our_backends()) == 0; }, 60s))
      << "all of them were closed";
  EXPECT_NO_THROW(queue.enqueue({.type = "t"}));
  EXPECT_EQ(next.accepted(), 1U) << "the next host is tried first";
}

TEST_F(TaskTimeoutTest, AReadOnlyConnectionIsNotKept) {
  TaskQueue queue{uri(), {.postgres = {.connections = 2}}};
  // For connections to come only, as those to a standby that is promoted later.
  server.run_sql("ALTER DATABASE postgres SET default_transaction_read_only = on");
  try {
    queue.enqueue({.type = "t"});
    ADD_FAILURE() << "accepted";
  } catch (const ServerRefused& refused) {
    EXPECT_EQ(refused.reason(), ServerRefused::Reason::read_only) << refused.what();
  }
  server.run_sql(
      "SET default_transaction_read_only = off; "
      "ALTER DATABASE postgres RESET default_transaction_read_only");
  EXPECT_NO_THROW(queue.enqueue({.type = "t"}));
}

TEST_F(TaskTimeoutTest, OneReadOnlyConnectionTellsOfTheOthers) {
  constexpr int connections = 3;
  TaskQueue queue{uri(), {.postgres = {.connections = connections, .command_timeout = 60s}}};
  server.run_sql("ALTER DATABASE postgres SET default_transaction_read_only = on");
  {
    pqxx::connection other{server.uri()};
    pqxx::work lock{other};
    lock.exec("SET TRANSACTION READ WRITE");
    lock.exec("LOCK TABLE leasehold.tasks IN ACCESS EXCLUSIVE MODE");
    std::vector<std::jthread> callers;
    for (int i = 0; i < connections; ++i) {
      callers.emplace_back([&] { EXPECT_NO_THROW(queue.get(TaskId{1})); });
    }
    ASSERT_TRUE(eventually([&] { return count(our_backends()) == connections; }, 60s));
    lock.commit();
  }
  server.run_sql(
      "SET default_transaction_read_only = off; "
      "ALTER DATABASE postgres RESET default_transaction_read_only");
  EXPECT_THROW(queue.enqueue({.type = "t"}), ServerRefused);
  EXPECT_NO_THROW(queue.enqueue({.type = "t"})) << "they are not tried one by one";
}

TEST_F(TaskTimeoutTest, TextIsUtf8WhateverTheRoleAndTheUriSay) {
  server.run_sql("ALTER DATABASE postgres SET client_encoding = 'LATIN1'");
  TaskQueue queue{uri() + "&client_encoding=LATIN1"};
  const TaskId id = queue.enqueue({.type = "t", .payload = "\"Zürich €\""}).id;
  server.run_sql("ALTER DATABASE postgres RESET client_encoding");
  EXPECT_EQ(queue.get(id)->payload, "\"Zürich €\"");
  EXPECT_EQ(count("leasehold.tasks WHERE payload::text LIKE '%Z' || chr(252) || 'rich ' || "
                  "chr(8364) || '%'"),
            1);
}

TEST_F(TaskTimeoutTest, AServerWithoutRoomForConnectionsSaysSoAndGetsBetter) {
  PostgresServer small{
      {.max_connections = 5,
       .config_lines = {"superuser_reserved_connections = 0", "max_wal_senders = 0"}}};
  migrate(small.uri());
  std::vector<std::unique_ptr<pqxx::connection>> crowd;
  while (works([&] {
    try {
      crowd.push_back(std::make_unique<pqxx::connection>(small.uri()));
    } catch (const pqxx::broken_connection& full) {
      throw Unavailable(full.what());
    }
  })) {
  }
  const auto made = KeptLog::make();
  const auto& logger = made.first;
  const auto& log = made.second;
  TaskQueue queue{small.uri(), {.postgres = {.connections = 2}, .logger = logger}};
  try {
    queue.enqueue({.type = "t"});
    ADD_FAILURE() << "accepted";
  } catch (const Unavailable& full) {
    EXPECT_NE(std::string(full.what()).find("53300"), std::string::npos) << full.what();
  }
  Worker worker{queue};
  worker.on("t", [](Task&) {});
  const RunningWorker running{worker};
  EXPECT_TRUE(eventually([&] { return log->count("cannot reach its tasks") == 1; }, 60s));
  crowd.clear();
  EXPECT_TRUE(eventually([&] { return works([&] { queue.enqueue({.type = "t"}); }); }, 60s));
  EXPECT_TRUE(eventually([&] { return worker.stats().completed == 1; }, 60s));
}

TEST_F(TaskTimeoutTest, AFullDiskIsSaidAndGetsBetter) {
  const TempDir dir;
  if (::mount("none", dir.path().c_str(), "tmpfs", 0, "size=16m") != 0) {
    GTEST_SKIP() << "may not mount a small disk here";
  }
  {
    PostgresServer full;  // of its own: it has to be gone before its disk
    const auto place = dir.path() / "space";
    std::filesystem::create_directory(place);
    if (const auto user = unprivileged_user()) {
      ASSERT_EQ(::chown(dir.path().c_str(), user->uid, user->gid), 0);
      ASSERT_EQ(::chown(place.c_str(), user->uid, user->gid), 0);
    }
    full.run_sql("CREATE TABLESPACE small LOCATION '" + place.string() + "'");
    full.run_sql("ALTER DATABASE postgres SET default_tablespace = small");
    migrate(full.uri());
    full.run_sql("CREATE TABLE filler (text text)");

    const auto made = KeptLog::make();
    const auto& logger = made.first;
    const auto& log = made.second;
    TaskQueue working_queue{full.uri(), {.logger = logger}};
    Worker worker{working_queue};
    Signal started;
    Signal go;
    worker.on("slow", [&](Task&) {
      started.set();
      EXPECT_TRUE(go.wait());
    });
    const TaskId slow = working_queue.enqueue({.type = "slow"}).id;
    const RunningWorker running{worker};
    ASSERT_TRUE(started.wait());
    EXPECT_ANY_THROW(full.run_sql(
        "INSERT INTO filler SELECT repeat(md5(i::text), 50) FROM generate_series(1, 100000) i"));
    TaskQueue queue{full.uri()};
    const auto enqueue = [&] {
      queue.enqueue(std::vector<NewTask>(
          500, {.type = "t", .payload = "\"" + std::string(1'500, 'x') + "\""}));
    };
    try {
      for (int i = 0; i < 1'000; ++i) enqueue();
      ADD_FAILURE() << "the disk is not full";
    } catch (const ServerRefused& refused) {
      EXPECT_EQ(refused.reason(), ServerRefused::Reason::cannot_save) << refused.what();
      EXPECT_TRUE(refused.transient());
    }
    go.set();  // there is no room for a finished task
    EXPECT_TRUE(eventually(
        [&] { return log->count("worker refused") == 1 && worker.stats().settling == 1; }, 60s))
        << "its completion is kept";
    full.run_sql("DROP TABLE filler; CHECKPOINT");
    EXPECT_TRUE(eventually([&] { return works(enqueue); }, 60s));
    EXPECT_TRUE(eventually([&] { return worker.stats().completed == 1; }, 60s));
    EXPECT_EQ(working_queue.get(slow)->attempts, 1);
  }
  EXPECT_EQ(::umount2(dir.path().c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace leasehold::testing
