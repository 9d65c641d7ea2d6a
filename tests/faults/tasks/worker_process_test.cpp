// Worker processes that are paused, killed and stopped.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "harness/process.hpp"
#include "harness/temp_dir.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/pause_process.hpp"
#include "tests/support/task_store.hpp"
#include "tests/support/test_namespace.hpp"
#include "tests/support/together.hpp"

namespace leasehold::testing {
namespace {

class WorkerProcessTest : public OnEveryTaskStore {
 protected:
  static std::unique_ptr<Process> start(std::vector<std::string> options) {
    options.insert(options.begin(),
                   {std::string(LEASEHOLD_TEST_PROGRAMS) + "/worker_program", uri()});
    auto process =
        std::make_unique<Process>(ProcessOptions{.argv = options, .err = Output::file(errors())});
    EXPECT_EQ(process->read_line(60s), "ready");
    return process;
  }
  static std::string rows(const std::string& what) {
    return sql("SELECT " + what + " FROM " + every_task() + " ORDER BY id");
  }

  /// What the processes complain about.
  static std::filesystem::path errors() {
    static const TempDir dir;
    return dir.path() / "errors";
  }
  WorkerProcessTest() { std::filesystem::remove(errors()); }
  void TearDown() override {
    std::ifstream file(errors());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(text.find("database is locked"), std::string::npos) << text;
  }

  TaskQueue queue{uri()};
};
ON_STORES_BETWEEN_PROCESSES(WorkerProcessTest);

TEST_P(WorkerProcessTest, PausedPastItsLeaseItIsToldAndItsWritesAreRefused) {
  const auto process = start({"lease=4000"});
  const auto id = queue.enqueue({.type = "watch"}).id;
  ASSERT_EQ(process->read_line(60s), "started " + std::to_string(id.value));
  pause_outside_transactions(*process, uri());
  Recovery recovery{queue};
  ASSERT_TRUE(eventually([&] { return recovery.run_once().requeued == 1; }, 60s));
  // Somebody else does it.
  auto lease = lease_one(queue, "watch", "other");
  EXPECT_EQ(lease.complete(R"("other")"), LeaseWrite::accepted);

  process->resume();
  EXPECT_EQ(process->read_line(60s), "told lease lost");
  EXPECT_EQ(process->read_line(60s), "progress stale");
  process->kill(SIGTERM);
  EXPECT_EQ(process->read_line(60s), "stopping");
  const auto stats = process->read_line(60s).value_or("");
  EXPECT_TRUE(stats.starts_with("stats completed=0 stale_writes=2 ") && stats.ends_with(" lost=1"))
      << "progress and completion were refused: " << stats;
  EXPECT_EQ(rows("state, leased_by, result, " + is_null("progress")),
            "completed|other|\"other\"|t");
}

TEST_P(WorkerProcessTest, ATaskThatKillsItsWorkersEndsAsDeadAndTakesNobodyAlong) {
  // The poison is leased together with many others, which lose their leases with it each time.
  std::vector<NewTask> tasks(300, {.type = "noop"});
  tasks[100] = {.type = "poison"};
  queue.enqueue(tasks);
  Recovery recovery{queue, {.max_crashes = 3}};
  const auto number = [&](const std::string& state) { return count("state = '" + state + "'"); };
  int deaths = 0;
  auto process = start({});
  // One query: a task given back between two of them would be in neither.
  const auto unfinished = [&] {
    return sql("SELECT count(*) FROM leasehold.tasks WHERE state IN ('pending', 'leased')") != "0";
  };
  while (unfinished()) {
    if (process->wait(10ms)) {
      ASSERT_LE(++deaths, 3) << "killed too many";
      expire_all();  // no lease of the living ends, however slow they are
      process = start({});
    }
    recovery.run_once();
  }
  EXPECT_EQ(deaths, 3);
  EXPECT_EQ(sql("SELECT type, crash_count FROM " + every_task() + " WHERE state = 'dead'"),
            "poison|3");
  EXPECT_EQ(number("completed"), 299);
}

TEST_P(WorkerProcessTest, PrefetchedTasksOfAStoppedWorkerAreFreeAtOnce) {
  // The worker learns that tasks are quick, leases ahead, and meets one that blocks its thread.
  const auto process = start({"concurrency=1", "grace=60000"});
  std::vector<NewTask> tasks(400, {.type = "noop"});
  tasks[150] = {.type = "watch"};
  queue.enqueue(tasks);
  const auto started = process->read_line(60s);
  ASSERT_TRUE(started && started->starts_with("started ")) << *started;
  const auto since = std::chrono::steady_clock::now();
  process->kill(SIGTERM);
  EXPECT_EQ(process->read_line(60s), "stopping");
  EXPECT_TRUE(eventually(
      [&] { return sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'leased'") == "1"; },
      60s));
  EXPECT_LT(std::chrono::steady_clock::now() - since, 15s)
      << "at once, and not when their lease of 30 s has expired";
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'pending' AND attempts > 0"),
            "0");

  // A second signal ends the grace of a minute.
  process->kill(SIGTERM);
  EXPECT_EQ(process->read_line(60s), "told shutdown");
  EXPECT_EQ(process->read_line(60s), "progress stale");
  const auto stats = process->read_line(60s);
  EXPECT_TRUE(stats && stats->starts_with("stats "));
  const auto end = process->wait(60s);
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->success());
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'leased'"), "0");
}

TEST_P(WorkerProcessTest, KilledWorkersLoseNothingAndDoubleNothing) {
  sql("DROP TABLE IF EXISTS ledger; DROP TABLE IF EXISTS refusals; "
      "CREATE TABLE ledger (task bigint, worker bigint); CREATE TABLE refusals (task bigint)");
  constexpr int tasks = 500;
  const auto enqueue = [&](std::size_t number) {
    queue.enqueue(std::vector<NewTask>(number, {.type = "ledger", .max_attempts = 1'000'000}));
  };
  enqueue(150);  // the rest as they are killed: they can not be done before
  const std::vector<std::string> options{"lease=1000", "concurrency=4", "work=5"};
  std::vector<std::unique_ptr<Process>> workers;
  for (int i = 0; i < 2; ++i) workers.push_back(start(options));
  Recovery recovery{queue, {.max_crashes = 1'000'000}};
  int killed = 0;
  const auto done = [&] { return std::stoi(sql("SELECT count(*) FROM ledger")); };
  while (done() < tasks) {
    recovery.run_once();
    if (killed < 5 && done() > 60 * (killed + 1)) {
      workers.front()->kill(SIGKILL);
      workers.erase(workers.begin());
      workers.push_back(start(options));
      ++killed;
      enqueue(70);
    }
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(killed, 5);
  EXPECT_TRUE(eventually(
      [&] {
        recovery.run_once();
        return sql("SELECT count(*) FROM leasehold.tasks WHERE state <> 'completed'") == "0";
      },
      60s));
  EXPECT_EQ(sql("SELECT count(*), count(DISTINCT task) FROM ledger"),
            std::to_string(tasks) + "|" + std::to_string(tasks));
}

}  // namespace
}  // namespace leasehold::testing
