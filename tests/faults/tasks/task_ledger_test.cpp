// The ledger: whatever happens to workers and server, every task has its effect exactly once.
#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <atomic>
#include <leasehold/postgres.hpp>
#include <leasehold/tasks.hpp>
#include <memory>
#include <pqxx/pqxx>
#include <random>
#include <thread>
#include <vector>

#include "harness/postgres_server.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/postgres_tasks.hpp"
#include "tests/support/sqlite_connection.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

class TaskLedgerTest : public ::testing::Test {
 protected:
  void SetUp() override { migrate(server.uri()); }
  std::string sql(const std::string& statement) const { return server.run_sql(statement); }

  PostgresServer server;
};

/// Workers that lease, have an effect and complete in one transaction; whatever happens to them on
/// the way, every task has its effect once.
class Ledger {
 public:
  /// What is not added now has to be added later.
  Ledger(const PostgresServer& server, int tasks, int now) : server_(server), tasks_(tasks) {
    server.run_sql("CREATE TABLE ledger (task bigint)");
    add(now);
  }

  void add(int tasks) const {
    TaskQueue queue{server_.uri()};
    // Of one type there are few: what it does not use goes to the other, in a second statement.
    std::vector<NewTask> batch(std::size_t(tasks), {.type = "t", .max_attempts = 1'000'000});
    for (std::size_t i = 0; i < batch.size(); i += 10) batch[i].type = "rare";
    queue.enqueue(batch);
  }

  /// `disturb` is called again and again until all is done.
  template <typename Disturb>
  void run(int workers, Disturb disturb) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < workers; ++i) threads.emplace_back([this] { work(); });
    threads.emplace_back([this] { recover(); });
    while (!done_) disturb();
  }

  void check() const {
    EXPECT_EQ(server_.run_sql("SELECT count(*), count(DISTINCT task) FROM ledger"),
              std::to_string(tasks_) + "|" + std::to_string(tasks_));
    EXPECT_EQ(server_.run_sql(std::string("SELECT state, count(*) FROM ") +
                              PostgresTaskTest::every_task + " GROUP BY state"),
              "completed|" + std::to_string(tasks_));
  }
  int disturbances() const { return errors_; }
  int operations() const { return operations_; }

 private:
  /// Without a word about what is wanted here.
  static TaskQueueOptions quiet() {
    return {.postgres = {.connections = 1},
            .recovery = RecoveryOptions{.max_crashes = 1'000'000},
            .logger = std::make_shared<spdlog::logger>("quiet")};
  }

  void work() {
    TaskQueue queue{server_.uri(), quiet()};
    std::unique_ptr<pqxx::connection> connection;
    while (!done_) {
      try {
        auto leases = queue.lease({.types = {"t", "rare"}, .limit = 10, .duration = 1s});
        ++operations_;
        for (auto& lease : leases) {
          if (!connection) connection = std::make_unique<pqxx::connection>(server_.uri());
          pqxx::work transaction{*connection};
          transaction.exec("INSERT INTO ledger VALUES (" + std::to_string(lease.id().value) + ")");
          complete_in(transaction, lease);
          transaction.commit();
          operations_ += 2;
        }
        if (leases.empty()) std::this_thread::sleep_for(5ms);
      } catch (const std::exception&) {  // any of ours or of libpqxx: the lease expires
        ++errors_;
        connection.reset();
      }
    }
  }

  void recover() {
    TaskQueue queue{server_.uri(), quiet()};
    Recovery recovery{queue, {.max_crashes = 1'000'000}};
    while (!done_) {
      try {
        recovery.run_once();
        std::uint64_t completed = 0;
        for (const TaskCount& count : queue.counts()) {
          if (count.state == TaskState::completed) completed += count.number;
        }
        done_ = completed >= std::uint64_t(tasks_);
      } catch (const Error&) {
        ++errors_;
      }
      std::this_thread::sleep_for(20ms);
    }
  }

  const PostgresServer& server_;
  const int tasks_;
  std::atomic<bool> done_{false};
  std::atomic<int> errors_{0};
  std::atomic<int> operations_{0};
};

TEST_F(TaskLedgerTest, ConnectionsTerminatedAtRandomLoseNothingAndDoubleNothing) {
  Ledger ledger{server, 5'000, 5'000};  // two operations each, and the leases
  std::minstd_rand random{42};
  ledger.run(4, [&] {
    try {
      sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client "
          "backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1");
    } catch (const std::exception&) {  // psql itself was not lucky
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{random() % 50});
  });
  ledger.check();
  EXPECT_GT(ledger.disturbances(), 0);
  EXPECT_GE(ledger.operations(), 10'000);
}

TEST_F(TaskLedgerTest, ARestartUnderLoadLosesNothing) {
  Ledger ledger{server, 2'000, 500};
  int restarts = 0;
  ledger.run(4, [&] {
    if (restarts == 3) {
      std::this_thread::sleep_for(10ms);
      return;
    }
    const auto completed = [&] { return std::stoi(sql("SELECT count(*) FROM ledger")); };
    EXPECT_TRUE(eventually([&] { return completed() >= 400 * (restarts + 1); }, 60s));
    if (restarts == 1) {
      server.kill();
      server.start();
    } else {
      server.restart(Data::kept);
    }
    ++restarts;
    ledger.add(500);  // so that there is something to do when the next one comes
  });
  ledger.check();
  EXPECT_EQ(restarts, 3);
  EXPECT_GT(ledger.disturbances(), 0);
}

}  // namespace
}  // namespace leasehold::testing
