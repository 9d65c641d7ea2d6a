// What a worker does, and how it stops, when its store does not answer. Without any server.
#include <gtest/gtest.h>

#include <atomic>

#include "tasks/runtime/worker_run.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/kept_log.hpp"
#include "tests/support/signal.hpp"

namespace leasehold {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::eventually;
using testing::KeptLog;
using testing::Signal;

/// The server of a test: what it has, and what it was asked. Silent calls return only when a test
/// says so.
struct Server {
  std::vector<LeasedTask> tasks;  ///< for the first lease
  std::atomic<int> leases{0};
  std::atomic<int> writes{0};  ///< of outcomes
  std::atomic<int> renewals{0};
  std::atomic<int> listens{0};
  Signal silent_lease_ends;
  Signal silent_write_ends;
  bool silent_writes = false;
};

/// Leases once; then it is silent, and nothing can be written.
class SilentStore : public TaskStore {
 public:
  explicit SilentStore(Server& server) : server_(server) {}

  std::vector<LeasedTask> lease(const LeaseRequest&, std::size_t) override {
    if (server_.leases++ == 0) return server_.tasks;
    EXPECT_TRUE(server_.silent_lease_ends.wait());
    fail_call();
  }
  Renewed extend(std::span<const Renewable> leases, std::chrono::milliseconds) override {
    ++server_.renewals;
    Renewed reply;
    for (const Renewable& lease : leases) reply.renewed.push_back(lease.key.name());
    return reply;
  }
  std::vector<LeaseName> complete(std::span<const FinishedTask>, Keep) override { fail_write(); }
  std::vector<LeaseName> release(std::span<const LeaseKey>,
                                 std::optional<std::chrono::milliseconds>, GivenBack) override {
    fail_write();
  }
  std::vector<FailOutcome> fail(std::span<const FailedTask>) override { fail_write(); }
  std::unique_ptr<TaskStore> twin(std::chrono::milliseconds) const override {
    return std::make_unique<SilentStore>(server_);
  }
  std::unique_ptr<TaskListener> listen() const override {
    ++server_.listens;
    fail_call();
  }
  std::uint64_t retries() const override { return 0; }
  std::string where() const override { return "nowhere"; }

  std::vector<Enqueued> enqueue(std::span<const NewTask>) override { fail_call(); }
  void check_callers(const CallersTransaction&) const override { fail_call(); }
  std::vector<Enqueued> enqueue_in(const CallersTransaction&, std::span<const NewTask>) override {
    fail_call();
  }
  LeaseWrite complete_in(const CallersTransaction&, const FinishedTask&, Keep) override {
    fail_call();
  }
  void transact(const std::function<void(sqlite3*)>&) override { fail_call(); }
  LeaseWrite progress(const LeaseKey&, std::string_view) override { fail_call(); }
  std::optional<StoredTask> get(TaskId) override { fail_call(); }
  std::vector<TaskRecord> list(const TaskFilter&) override { fail_call(); }
  std::vector<TaskCount> counts(std::uint64_t) override { fail_call(); }
  QueueHealth health() override { fail_call(); }
  Update update(TaskId, TaskVersion, const TaskChanges&) override { fail_call(); }
  CancelOutcome cancel(TaskId) override { fail_call(); }
  RetryOutcome retry(TaskId) override { fail_call(); }
  Recovered recover(const ExpiredLease&, const RecoveryOptions&) override { fail_call(); }
  void give_back_lost() override {}
  Upkeep look_after(std::string_view, const std::optional<RecoveryOptions>&) override { return {}; }
  Removed remove_finished(TaskState, std::chrono::milliseconds, std::size_t) override {
    fail_call();
  }

 private:
  [[noreturn]] static void fail_call() { throw Unavailable("silence"); }
  [[noreturn]] void fail_write() {
    ++server_.writes;
    if (server_.silent_writes) {
      EXPECT_TRUE(server_.silent_write_ends.wait());
    }
    fail_call();
  }

  Server& server_;
};

class SilentStoreTest : public ::testing::Test {
 protected:
  SilentStoreTest() { std::tie(logger, log) = KeptLog::make(); }

  static LeasedTask task(std::int64_t id) {
    return {.key = {TaskId{id}, TaskVersion{1}}, .type = "t", .attempts = 1};
  }
  QueueCore& core() {
    if (!core_) {
      core_ = std::make_shared<QueueCore>(std::make_unique<SilentStore>(server),
                                          TaskQueueOptions{.logger = logger});
    }
    return *core_;
  }
  bool gave_up() { return log->count("outcomes not written") == 1; }

  Server server;
  std::shared_ptr<spdlog::logger> logger;
  std::shared_ptr<KeptLog> log;
  WorkerTelemetry telemetry{nullptr};
  const std::string name = "w";
  const std::vector<TaskKind> kinds{{"t", [](Task&) {}, {}, Keep::yes}};

 private:
  std::shared_ptr<QueueCore> core_;
};

TEST_F(SilentStoreTest, AfterOneTimeOutTheOtherOutcomesAreKeptForLater) {
  const WorkerOptions options;
  TaskBoard board{kinds, 8, 0};
  StoreOutage outage{logger, name};
  const WorkerContext context{core(), options, name, board, telemetry, outage};
  Settler settler{context};
  std::vector<TaskRunPtr> runs;
  using Kind = TaskOutcome::Kind;
  for (const Kind kind : {Kind::complete, Kind::release, Kind::fail, Kind::fail}) {
    const auto id = std::int64_t(runs.size());
    runs.push_back(std::make_shared<TaskRun>(task(id), kinds.front(), 0, BootClock::now() + 1h));
    runs.back()->outcome.kind = kind;
  }
  EXPECT_EQ(settler.settle(runs).size(), runs.size());
  EXPECT_EQ(server.writes, 1);
  EXPECT_EQ(settler.settle(runs).size(), runs.size());
  EXPECT_EQ(server.writes, 2) << "the next round asks again";
}

TEST_F(SilentStoreTest, ALeaseUnderWayDoesNotPutOffTheTimeForOutcomes) {
  server.tasks = {task(1)};
  const WorkerOptions options{.concurrency = 2, .prefetch = 0, .stop_grace = 0ms};
  WorkerRun run{core(), options, name, kinds, telemetry};
  Signal ended;
  std::jthread thread([&](const std::stop_token& stop) {
    run.run(stop, {});
    ended.set();
  });
  ASSERT_TRUE(eventually([&] { return server.leases == 2 && server.writes > 0; }, 60s));
  thread.request_stop();
  // Longer than a stop waits for outcomes.
  EXPECT_FALSE(ended.wait(7s)) << "a lease is under way";
  const auto over = steady_clock::now();
  server.silent_lease_ends.set();
  ASSERT_TRUE(ended.wait());
  EXPECT_LT(steady_clock::now() - over, 4s) << "5 s more";
  EXPECT_TRUE(gave_up());
}

TEST_F(SilentStoreTest, RenewalsEndTogetherWithTheWritingOfOutcomes) {
  server.tasks = {task(1)};
  server.silent_writes = true;
  const WorkerOptions options{.concurrency = 1, .lease = 300ms, .prefetch = 0, .stop_grace = 0ms};
  WorkerRun run{core(), options, name, kinds, telemetry};
  std::jthread thread([&](const std::stop_token& stop) { run.run(stop, {}); });
  ASSERT_TRUE(eventually([&] { return server.writes > 0 && server.renewals > 0; }, 60s));
  thread.request_stop();
  ASSERT_TRUE(eventually([&] { return gave_up(); }, 60s));
  // Renewals would come every 100 ms.
  EXPECT_TRUE(eventually(
      [&] {
        const int before = server.renewals;
        std::this_thread::sleep_for(500ms);
        return server.renewals == before;
      },
      60s));
  server.silent_write_ends.set();
}

TEST_F(SilentStoreTest, ThatItIsNotWokenIsSaidOnce) {
  const WorkerOptions options;
  WorkerRun run{core(), options, name, kinds, telemetry};
  const std::jthread thread([&](const std::stop_token& stop) { run.run(stop, {}); });
  EXPECT_TRUE(eventually([&] { return server.listens >= 3; }, 60s));
  EXPECT_EQ(log->count("gets no notifications"), 1);
  server.silent_lease_ends.set();
}

}  // namespace
}  // namespace leasehold
