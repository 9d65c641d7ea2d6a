// Through PgBouncer in transaction mode, where each statement may come to another server process.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <leasehold/postgres.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "harness/free_port.hpp"
#include "harness/process.hpp"
#include "harness/temp_dir.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/postgres_tasks.hpp"
#include "tests/support/shared_servers.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

/// A private PgBouncer in front of the private server, with two server connections.
class PgBouncer {
 public:
  explicit PgBouncer(const std::string& database) {
    const std::string server = shared_postgres().uri();  // postgresql://postgres@127.0.0.1:port/…
    const auto colon = server.rfind(':');
    const std::string port = server.substr(colon + 1, server.find('/', colon) - colon - 1);
    std::ofstream(dir_.path() / "users.txt") << "\"postgres\" \"\"\n";
    std::ofstream(dir_.path() / "pgbouncer.ini")
        << "[databases]\n"
        << database << " = host=127.0.0.1 port=" << port << " user=postgres\n"
        << "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = " << port_.number()
        << "\nunix_socket_dir =\nauth_type = trust\nauth_file = " << path("users.txt")
        << "\npool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 100\n";
    ProcessOptions options{.argv = {"pgbouncer", path("pgbouncer.ini")},
                           .run_as = unprivileged_user(),
                           .out = Output::file(dir_.path() / "log"),
                           .err = Output::standard_output()};
    if (options.run_as) {
      for (const auto& file :
           {dir_.path(), dir_.path() / "users.txt", dir_.path() / "pgbouncer.ini"}) {
        if (::chown(file.c_str(), options.run_as->uid, options.run_as->gid) != 0) {
          throw std::runtime_error("chown");
        }
      }
    }
    process_ = std::make_unique<Process>(options);
    uri_ = "postgresql://postgres@127.0.0.1:" + std::to_string(port_.number()) + "/" + database;
    EXPECT_TRUE(eventually([&] {
      try {
        pqxx::connection probe{uri_};
        return true;
      } catch (const std::exception&) {
        return false;
      }
    }));
  }

  const std::string& uri() const { return uri_; }

 private:
  std::string path(const char* name) const { return (dir_.path() / name).string(); }

  TempDir dir_;
  FreePort port_;
  std::string uri_;
  std::unique_ptr<Process> process_;
};

class TaskPgBouncerTest : public PostgresTaskTest {
 protected:
  PgBouncer bouncer{database()};
};

TEST_F(TaskPgBouncerTest, MigratesAndDrainsWithManyThreads) {
  sql("SET client_min_messages = warning; DROP SCHEMA leasehold CASCADE");
  EXPECT_EQ(migrate(bouncer.uri()).from, 0);

  TaskQueue queue{bouncer.uri(), {.postgres = {.connections = 8}}};
  constexpr int tasks = 300;
  queue.enqueue(std::vector<NewTask>(tasks, {.type = "t"}));
  std::atomic<int> done{0};
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < 8; ++i) {
      workers.emplace_back([&] {
        for (;;) {
          auto leases = queue.lease({.types = {"t"}, .limit = 5});
          if (leases.empty()) return;
          EXPECT_TRUE(queue.extend(leases).empty());
          EXPECT_EQ(leases.front().progress("1"), LeaseWrite::accepted);
          EXPECT_TRUE(queue.complete(leases).empty());
          done += int(leases.size());
        }
      });
    }
  }
  EXPECT_EQ(done, tasks);
}

TEST_F(TaskPgBouncerTest, WorkersDrain) {
  TaskQueue queue{bouncer.uri()};
  // LISTEN is of no use here, and does no harm.
  for (const auto wake_up : {WakeUp::poll, WakeUp::listen}) {
    Worker worker{queue, {.poll_max = 100ms, .wake_up = wake_up}};
    worker.on("t", [](Task& task) { EXPECT_EQ(task.progress("1"), LeaseWrite::accepted); });
    std::jthread running([&](const std::stop_token& stop) { worker.run(stop); });
    queue.enqueue(std::vector<NewTask>(200, {.type = "t"}));
    EXPECT_TRUE(eventually([&] { return worker.stats().completed == 200; }, 60s));
  }
}

TEST_F(TaskPgBouncerTest, ATimeOutEndsTheStatementBehindThePooler) {
  TaskQueue queue{bouncer.uri(), {.postgres = {.connections = 2, .command_timeout = 2s}}};
  const TaskId id = queue.enqueue({.type = "t"}).id;
  {
    pqxx::connection other{uri()};
    pqxx::work lock{other};
    lock.exec("LOCK TABLE leasehold.tasks IN ACCESS EXCLUSIVE MODE");
    for (int i = 0; i < 3; ++i) {
      EXPECT_THROW(queue.lease({.types = {"t"}}), Unavailable) << "it did not happen";
      // A lease gives up the lock by itself. This waits until it is cancelled through the pooler.
      EXPECT_ANY_THROW(queue.get(id));
    }
    EXPECT_TRUE(eventually([&] {
      return sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
                 "datname = current_database()") == "0";
    })) << "nothing waits for nobody";
  }
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'leased'"), "0");
  EXPECT_EQ(queue.lease({.types = {"t"}}).size(), 1U);
}

// The pooler has only two server connections. What it has not sent on yet must not be executed
// later.
TEST_F(TaskPgBouncerTest, ATimeOutEndsAStatementThatThePoolerHasKeptWaiting) {
  TaskQueue queue{bouncer.uri(), {.postgres = {.connections = 2, .command_timeout = 1s}}};
  queue.list();
  {
    pqxx::connection one{bouncer.uri()};
    pqxx::connection two{bouncer.uri()};
    pqxx::work first{one};
    pqxx::work second{two};
    first.exec("SELECT 1");
    second.exec("SELECT 1");
    EXPECT_ANY_THROW(queue.enqueue({.type = "t"}));
  }
  queue.enqueue({.type = "t"});
  EXPECT_EQ(queue.list().size(), 1U);
}

TEST_F(TaskPgBouncerTest, EveryOtherCallWorks) {
  TaskQueue queue{bouncer.uri()};
  const auto task = queue.enqueue({.type = "t", .unique_key = "k"});
  EXPECT_EQ(queue.enqueue({.type = "t", .unique_key = "k"}).id, task.id);
  lease_one(queue).release();
  lease_one(queue).fail("no", Retry::never());
  EXPECT_EQ(queue.retry(task.id), RetryOutcome::requeued);
  EXPECT_EQ(queue.update(task.id, queue.get(task.id)->version, {.priority = 2}).outcome,
            Update::Outcome::updated);
  EXPECT_EQ(queue.list().size(), 1U);
  EXPECT_EQ(queue.counts().size(), 1U);
  auto lease = lease_one(queue);
  expire(task.id);
  EXPECT_EQ(Recovery{queue}.run_once().requeued, 1U);
  lease.abandon();
  EXPECT_EQ(queue.cancel(task.id), CancelOutcome::was_pending);
  EXPECT_EQ(queue.remove_finished({.cancelled = 0ms}), 1U);
  EXPECT_EQ(queue.remove_finished(), 0U) << "looks for days to drop";
  EXPECT_NO_THROW(queue.health());

  pqxx::connection connection{bouncer.uri()};
  pqxx::work transaction{connection};
  enqueue_in(transaction, queue, {.type = "t"});
  fence(transaction, "r", {1});
  transaction.commit();
  auto joined = lease_one(queue);
  pqxx::work second{connection};
  complete_in(second, joined);
  second.commit();
}

}  // namespace
}  // namespace leasehold::testing
