// The faults of tasks in a SQLite file: machines that start anew, files that are
// refused, many processes that are killed.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "harness/process.hpp"
#include "harness/temp_dir.hpp"
#include "tests/support/as_ordinary_user.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/kept_log.hpp"
#include "tests/support/own_transaction.hpp"
#include "tests/support/refusal_of.hpp"
#include "tests/support/running_worker.hpp"
#include "tests/support/signal.hpp"
#include "tests/support/sqlite_connection.hpp"
#include "tests/support/task_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

class EmbeddedTaskTest : public OnEveryTaskStore {
 protected:
  static std::filesystem::path file() { return uri().substr(std::string("sqlite:").size()); }

  using Reason = ServerRefused::Reason;
  TaskQueue queue{uri()};
};
ON_STORES(EmbeddedTaskTest, StoreKind::sqlite_file);

TEST_P(EmbeddedTaskTest, LeasesOfAnEarlierStartOfTheMachineHaveExpired) {
  const auto task = queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  EXPECT_TRUE(Recovery{queue}.run_once().tasks.empty());
  auto options = sqlite::open_options({});
  options.boot_id = "the next start";
  sqlite::open_database(*sqlite::parse_sqlite_uri(uri()), options);
  const auto report = Recovery{queue}.run_once();
  ASSERT_EQ(report.tasks.size(), 1U);
  EXPECT_EQ(report.tasks[0].id, task.id);
  EXPECT_EQ(lease.complete(), LeaseWrite::stale);
}

/// Why TaskQueue does not open it; it has to name the file and to say this.
ServerRefused::Reason refusal(const std::filesystem::path& file, const std::string& word) {
  return refusal_of([&] { TaskQueue{"sqlite:" + file.string()}.enqueue({.type = "t"}); },
                    file.string(), word);
}

TEST_P(EmbeddedTaskTest, AFileThatIsNotOursIsRefusedAndLeftAsItIs) {
  const TempDir dir;
  const auto letter = dir.path() / "letter";
  const std::string text = "This is a letter to my grandmother. " + std::string(4'000, '.');
  std::ofstream(letter) << text;
  EXPECT_EQ(refusal(letter, "not a SQLite database"), Reason::wrong_type);
  std::stringstream read;
  read << std::ifstream(letter).rdbuf();
  EXPECT_EQ(read.str(), text);

  const auto letters = dir.path() / "letters.db";
  OwnTransaction{connect_to(letters).get()}.execute("CREATE TABLE letters (text)");
  EXPECT_EQ(refusal(letters, "another program"), Reason::wrong_type);
  OwnTransaction{connect_to(letters).get()}.execute("INSERT INTO letters VALUES ('still there')");

  EXPECT_EQ(refusal(dir.path(), "this is a folder"), Reason::wrong_type);
}

TEST_P(EmbeddedTaskTest, AFileOfANewerLeaseholdIsRefused) {
  sql("UPDATE leasehold_schema SET version = 1000 WHERE kind = 'tasks'");
  EXPECT_EQ(refusal(file(), "version 1000"), Reason::newer_schema);
}

TEST_P(EmbeddedTaskTest, AReadOnlyFileOrFolderIsRefused) {
  using std::filesystem::perms;
  queue.enqueue({.type = "t"});
  std::filesystem::permissions(file(), perms{0444});
  std::filesystem::permissions(file().parent_path(), perms{0555});
  {
    const AsOrdinaryUser user;
    EXPECT_EQ(refusal(file(), "read-only"), Reason::permission);
    EXPECT_EQ(refusal(file().parent_path() / "new.db", "may not write into its folder"),
              Reason::permission);
  }
  std::filesystem::permissions(file().parent_path(), perms{0755});
  std::filesystem::permissions(file(), perms{0644});
  lease_one(queue).complete();
}

TEST_P(EmbeddedTaskTest, AFullFileIsRefusedAndNothingHappened) {
  queue.enqueue({.type = "t"});
  transact(queue, [](sqlite3* connection) {
    OwnTransaction{connection}.execute("PRAGMA max_page_count = 1");  // as many as there are now
  });
  try {
    for (int i = 0; i < 100; ++i) {
      queue.enqueue({.type = "big", .payload = '"' + std::string(100'000, 'x') + '"'});
    }
    FAIL() << "a full file took 10 MB";
  } catch (const ServerRefused& error) {
    EXPECT_NE(std::string(error.what()).find("full"), std::string::npos) << error.what();
    EXPECT_EQ(error.reason(), Reason::cannot_save);
    EXPECT_TRUE(error.transient());
  }
  EXPECT_TRUE(queue.list({.type = "big"}).empty());
  transact(queue, [](sqlite3* connection) {
    OwnTransaction{connection}.execute("PRAGMA max_page_count = 1000000");
  });
  queue.enqueue({.type = "big"});
  lease_one(queue).complete();
}

TEST_P(EmbeddedTaskTest, AFullFileBurnsNoAttempt) {
  const auto [logger, log] = KeptLog::make();
  TaskQueue working_queue{uri(), {.logger = logger}};
  const auto set_room = [&](const std::string& pages) {
    transact(working_queue, [&](sqlite3* connection) {
      OwnTransaction{connection}.execute("PRAGMA max_page_count = " + pages);
    });
  };
  const std::string big = '"' + std::string(100'000, 'x') + '"';
  Worker worker{working_queue};
  Signal deferred;
  std::atomic<int> calls{0};
  worker.on("t",
            [&](Task& task) {
              EXPECT_EQ(task.attempt(), 1);
              if (++calls > 1) {
                EXPECT_EQ(task.last_progress(), big);
                return;
              }
              set_room("1");
              EXPECT_EQ(task.progress(big), LeaseWrite::deferred);
              deferred.set();
              working_queue.enqueue({.type = "t", .payload = big});
            },
            {.retry = Retry::after(0ms)});
  const auto id = working_queue.enqueue({.type = "t", .max_attempts = 1}).id;
  const RunningWorker running{worker};
  ASSERT_TRUE(deferred.wait());
  ASSERT_TRUE(eventually([&] { return worker.stats().settling == 1; }, 60s));
  set_room("1000000");
  EXPECT_TRUE(eventually([&] { return queue.get(id)->state == TaskState::completed; }, 60s));
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(queue.get(id)->last_error.empty());
  EXPECT_EQ(log->count("task outcome given up"), 0);
}

// Many processes enqueue, lease, have effects, complete and are killed at random moments. What was
// acknowledged is there; every task has its effect once; nobody sees a locked file. The processes
// take back the leases of those that were killed.
TEST_P(EmbeddedTaskTest, ProcessesKilledAtRandomLoseNothingAndDoubleNothing) {
  sql("CREATE TABLE ledger (task bigint, worker bigint); CREATE TABLE refusals (task bigint)");
  constexpr int processes = 4;
  constexpr std::size_t tasks = 400;
  const auto start = [] {
    auto process = std::make_unique<Process>(
        std::vector<std::string>{std::string(LEASEHOLD_TEST_PROGRAMS) + "/worker_program", uri(),
                                 "lease=1000", "concurrency=2", "work=2", "max_crashes=1000000"});
    EXPECT_EQ(process->read_line(60s), "ready");
    return process;
  };
  std::vector<std::unique_ptr<Process>> workers;
  for (int i = 0; i < processes; ++i) workers.push_back(start());

  std::atomic<bool> done{false};
  std::jthread enqueuing([&] {  // while others drain
    TaskQueue own{uri()};
    try {
      for (std::size_t i = 0; i < tasks / 10; ++i) {
        own.enqueue(std::vector<NewTask>(10, {.type = "ledger", .max_attempts = 1'000'000}));
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    done = true;
  });
  std::minstd_rand random{7};
  const auto unfinished = [&] { return count("state <> 'completed'") > 0; };
  int killed = 0;
  while (killed < 10 || !done || unfinished()) {
    if (killed < 10) {
      auto& victim = workers[random() % processes];
      victim->kill(SIGKILL);
      victim = start();
      ++killed;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{random() % 40});
  }
  EXPECT_EQ(count("true"), int(tasks)) << "acknowledged";
  EXPECT_EQ(sql("SELECT count(*), count(DISTINCT task) FROM ledger"),
            std::to_string(tasks) + "|" + std::to_string(tasks));
  EXPECT_EQ(sql("PRAGMA integrity_check"), "ok");
}

TEST_P(EmbeddedTaskTest, ADeletedFileIsMadeAnewAndItsTasksAreGone) {
  queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  std::filesystem::remove(file());
  const auto next = queue.enqueue({.type = "t"});
  TaskQueue other{uri()};
  ASSERT_EQ(other.list().size(), 1U);
  EXPECT_EQ(other.list().front().id, next.id);
  EXPECT_EQ(lease.complete(), LeaseWrite::stale);
  EXPECT_EQ(other.get(next.id)->state, TaskState::pending);
}

// The renewals of a worker have a connection of their own.
TEST_P(EmbeddedTaskTest, RetriesOfASecondConnectionAreCountedWithTheFirst) {
  const auto database =
      sqlite::open_database(*sqlite::parse_sqlite_uri(uri()), sqlite::open_options({}));
  const sqlite::SqliteTaskStore store(database, {});
  const auto twin = store.twin(50ms);
  const auto other = connect();
  const OwnTransaction lock{other.get()};
  lock.execute("BEGIN IMMEDIATE");
  const Renewable lease{};
  EXPECT_THROW(twin->extend({&lease, 1}, 1s), Unavailable);
  EXPECT_GE(store.retries(), 1U);
}

// Every process that polls does so about once a second.
TEST_P(EmbeddedTaskTest, LookingForExpiredLeasesKeepsNobodyFromWriting) {
  const TaskId id = queue.enqueue({.type = "t"}).id;
  auto lease = lease_one(queue);
  sqlite::SqliteTaskStore store(
      sqlite::open_database(*sqlite::parse_sqlite_uri(uri()),
                            sqlite::open_options({.sqlite = {.timeout = 50ms}})),
      {});
  const auto other = connect();
  const OwnTransaction lock{other.get()};
  lock.execute("BEGIN IMMEDIATE");
  EXPECT_TRUE(store.look_after("w", RecoveryOptions{}).recovered.empty())
      << "none has expired: it only reads";
  lock.execute("ROLLBACK");
  expire(id);
  lock.execute("BEGIN IMMEDIATE");
  EXPECT_THROW(store.look_after("w", RecoveryOptions{}), Unavailable);
  lock.execute("ROLLBACK");
  EXPECT_EQ(store.look_after("w", RecoveryOptions{}).recovered.size(), 1U);
  EXPECT_EQ(lease.complete(), LeaseWrite::stale);
}

TEST_P(EmbeddedTaskTest, AProcessThatKeepsTheFileLockedIsSaidToBeInTheWay) {
  const auto other = connect();
  const OwnTransaction lock{other.get()};
  lock.execute("BEGIN IMMEDIATE");
  TaskQueue impatient{uri(), {.sqlite = {.timeout = 200ms}}};
  EXPECT_THROW(impatient.enqueue({.type = "t"}), Unavailable);
  EXPECT_GE(impatient.stats().retries, 1U);
  EXPECT_TRUE(impatient.list().empty()) << "reading goes on";
  lock.execute("ROLLBACK");
  impatient.enqueue({.type = "t"});
}

}  // namespace
}  // namespace leasehold::testing
