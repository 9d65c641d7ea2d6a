// A failover that loses commits: leases, effects and completions that the standby never received.
#include <gtest/gtest.h>

#include <algorithm>
#include <leasehold/postgres.hpp>
#include <leasehold/tasks.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <pqxx/pqxx>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/postgres_pair.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/running_worker.hpp"
#include "tests/support/signal.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

class LostCommitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    migrate(pair.primary().uri());
    pair.await_caught_up();
  }

  PostgresPair pair;
};

/// Tasks that were leased on the primary after the standby was cut off, and once more, with the
/// same versions, on the standby that took its place.
class LeasedTwiceTest : public LostCommitsTest {
 protected:
  static constexpr std::size_t tasks = 10;

  void SetUp() override {
    LostCommitsTest::SetUp();
    first.enqueue(std::vector<NewTask>(tasks, {.type = "t"}));
    pair.await_caught_up();
    pair.cut_replication();
    const LeaseRequest request{.types = {"t"}, .limit = tasks, .duration = 1h};
    old_leases = first.lease(request);
    pair.primary().kill();
    pair.promote();
    // Whoever had a lease before the failover looks for a primary as well.
    ASSERT_TRUE(eventually([&] { return reaches_primary(first); }, 60s));
    ASSERT_TRUE(eventually([&] { return reaches_primary(second); }, 60s));
    new_leases = second.lease(request);
    ASSERT_EQ(old_leases.size(), tasks);
    ASSERT_EQ(names(old_leases), names(new_leases)) << "that is what a failover can do";
    before = rows();
  }
  void TearDown() override {
    EXPECT_EQ(rows(), before) << "the old holder changed a task";
    EXPECT_TRUE(second.complete(new_leases).empty()) << "the new holder has all of them";
    for (TaskLease& lease : old_leases) lease.abandon();
  }

  static bool reaches_primary(TaskQueue& queue) {
    try {
      queue.get(TaskId{1});
      return true;
    } catch (const Error&) {
      return false;
    }
  }
  static std::vector<std::pair<TaskId, TaskVersion>> names(const std::vector<TaskLease>& leases) {
    std::vector<std::pair<TaskId, TaskVersion>> result;
    for (const TaskLease& lease : leases) result.emplace_back(lease.id(), lease.version());
    std::sort(result.begin(), result.end());
    return result;
  }
  std::string rows() { return pair.standby().run_sql("SELECT * FROM leasehold.tasks ORDER BY id"); }

  const TaskQueueOptions options{.postgres = {.connections = 1}, .recovery = std::nullopt};
  TaskQueue first{pair.uri(), options};
  TaskQueue second{pair.uri(), options};
  std::vector<TaskLease> old_leases;
  std::vector<TaskLease> new_leases;
  std::string before;
};

TEST_F(LeasedTwiceTest, TheOldHolderIsRefused) {
  EXPECT_EQ(old_leases[0].extend(), LeaseWrite::stale);
  EXPECT_EQ(old_leases[1].progress("1"), LeaseWrite::stale);
  EXPECT_EQ(old_leases[2].complete("1"), LeaseWrite::stale);
  EXPECT_EQ(old_leases[3].fail("no"), FailOutcome::stale);
  EXPECT_EQ(old_leases[4].fail("no", Retry::never()), FailOutcome::stale);
  EXPECT_EQ(old_leases[5].release(), LeaseWrite::stale);
  EXPECT_EQ(old_leases[6].release_for(1h), LeaseWrite::stale);
  pqxx::connection connection{pair.standby().uri()};
  pqxx::work transaction{connection};
  EXPECT_THROW(complete_in(transaction, old_leases[7]), LeaseLost);
}

TEST_F(LeasedTwiceTest, TheOldHolderIsRefusedInBatchesToo) {
  const std::span<TaskLease> all{old_leases};
  EXPECT_EQ(first.extend(all.first(3)).size(), 3U);
  EXPECT_EQ(first.complete(all.subspan(3, 3)).size(), 3U);
  EXPECT_EQ(first.release(all.subspan(6)).size(), 4U);
}

/// Effects in the same transaction as the completion, and what this process knows of them.
class FailoverEffects {
 public:
  explicit FailoverEffects(const PostgresPair& pair)
      : uri_(pair.uri() + "?target_session_attrs=read-write&connect_timeout=5") {
    pqxx::connection connection{uri_};
    pqxx::nontransaction{connection}.exec("CREATE TABLE ledger (task bigint)");
  }

  void have(Task& task) {
    thread_local std::unique_ptr<pqxx::connection> connection;
    try {
      if (!connection) connection = std::make_unique<pqxx::connection>(uri_);
      pqxx::work transaction{*connection};
      transaction.exec_params("INSERT INTO ledger VALUES ($1)", task.id().value);
      complete_in(transaction, task);
      transaction.commit();
    } catch (...) {
      connection.reset();
      throw;
    }
    const std::lock_guard guard(mutex_);
    ++commits_[task.id()];
  }

  std::size_t tasks() const {
    const std::lock_guard guard(mutex_);
    return commits_.size();
  }
  std::set<TaskId> all() const { return with_commits(1); }
  /// Tasks whose effect was committed several times.
  std::set<TaskId> repeated() const { return with_commits(2); }

 private:
  std::set<TaskId> with_commits(int least) const {
    const std::lock_guard guard(mutex_);
    std::set<TaskId> result;
    for (const auto& [id, commits] : commits_) {
      if (commits >= least) result.insert(id);
    }
    return result;
  }

  const std::string uri_;
  mutable std::mutex mutex_;
  std::map<TaskId, int> commits_;  // guarded by mutex_
};

TEST_F(LostCommitsTest, AWorkerGoesOnAndRepeatsOnlyWhatTheFailoverHasLost) {
  FailoverEffects effects{pair};
  TaskQueue queue{pair.uri(), {.postgres = {.connections = 2, .command_timeout = 5s}}};
  const auto enqueue = [&](const std::string& type, std::size_t number) {
    queue.enqueue(std::vector<NewTask>(number, {.type = type, .max_attempts = 1'000'000}));
  };
  Signal cut;
  Worker worker{queue, {.concurrency = 4, .lease = 3s, .poll_max = 100ms}};
  const HandlerOptions retry{.retry = Retry::after(50ms)};
  worker.on(
      "kept", [&](Task& task) { effects.have(task); }, retry);
  worker.on(
      "lost",
      [&, cut](Task& task) {
        EXPECT_TRUE(cut.wait());
        effects.have(task);
      },
      retry);
  enqueue("kept", 200);
  const RunningWorker running{worker};
  ASSERT_TRUE(eventually([&] { return effects.tasks() == 200; }, 60s));
  const std::set<TaskId> kept = effects.all();
  enqueue("lost", 400);
  pair.await_caught_up();  // no task will be lost, but effects, completions and leases will
  pair.cut_replication();
  cut.set();
  ASSERT_TRUE(eventually([&] { return effects.tasks() > 250; }, 60s));
  pair.primary().kill();
  pair.promote();

  const auto rows = [&](const std::string& query) { return pair.standby().run_sql(query); };
  EXPECT_TRUE(eventually(
      [&] {
        return rows("SELECT state, count(*) FROM leasehold.finished_tasks GROUP BY 1") ==
               "completed|600";
      },
      120s))
      << rows("SELECT type, state, count(*) FROM leasehold.tasks GROUP BY 1, 2");
  EXPECT_EQ(rows("SELECT count(*), count(DISTINCT task) FROM ledger"), "600|600");
  EXPECT_FALSE(effects.repeated().empty()) << "effects were lost";
  for (const TaskId id : effects.repeated()) {
    EXPECT_FALSE(kept.contains(id)) << "task " << id << " was done, and was done again";
  }
}

}  // namespace
}  // namespace leasehold::testing
