// What a worker asks of its store, and how it survives what a store throws. Without any server.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <map>
#include <new>
#include <optional>
#include <sstream>
#include <string>

#include "support/combiner.hpp"
#include "support/sleep.hpp"
#include "tasks/runtime/worker_run.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/kept_log.hpp"
#include "tests/support/signal.hpp"

namespace {

/// Which of the next allocations of this thread fail.
struct Memory {
  int left = 0;      ///< allocations until the first that fails
  int failures = 0;  ///< how many fail then
  bool fails() {
    if (failures == 0 || left-- > 0) return false;
    left = 0;
    --failures;
    return true;
  }
};
thread_local Memory memory;

}  // namespace

void* operator new(std::size_t size) {
  void* const place = memory.fails() ? nullptr : std::malloc(std::max<std::size_t>(size, 1));
  if (place == nullptr) throw std::bad_alloc{};
  return place;
}
// Of the same kind, because what it allocates is given to the operator below.
void* operator new(std::size_t size, const std::nothrow_t& /*nothrow*/) noexcept {
  return std::malloc(std::max<std::size_t>(size, 1));
}
void operator delete(void* place) noexcept { std::free(place); }
void operator delete(void* place, std::size_t) noexcept { std::free(place); }

namespace leasehold {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::KeptLog;
using testing::Signal;
using Ids = std::vector<std::int64_t>;
using Reason = ServerRefused::Reason;

bool contains(const Ids& ids, std::int64_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

/// The server of a test: the tasks that it has, what it was asked, and what it throws.
class UnrulyServer {
 public:
  using Fault = std::function<void(const std::string& call, const Ids& ids)>;

  struct Call {
    std::string name;
    Ids ids;
    std::string text{};  ///< progress, or what else matters
  };

  void add(LeasedTask task) {
    const std::lock_guard guard(mutex_);
    pending_.push_back(std::move(task));
  }
  /// Is called by each call, and may throw.
  void set_fault(Fault fault) {
    const std::lock_guard guard(mutex_);
    fault_ = std::move(fault);
  }
  /// The calls with this name that were executed.
  std::vector<Call> calls(const std::string& name) {
    const std::lock_guard guard(mutex_);
    std::vector<Call> found;
    for (const Call& call : calls_) {
      if (call.name == name) found.push_back(call);
    }
    return found;
  }
  std::size_t tasks_in(const std::string& name) {
    std::size_t tasks = 0;
    for (const Call& call : calls(name)) tasks += call.ids.size();
    return tasks;
  }
  /// All calls with one of these names, in order, as text.
  std::string history(const std::vector<std::string>& names) {
    const std::lock_guard guard(mutex_);
    std::string all;
    for (const Call& call : calls_) {
      if (std::find(names.begin(), names.end(), call.name) == names.end()) continue;
      all += call.name + (call.text.empty() ? "" : " " + call.text) + ';';
    }
    return all;
  }

  void execute(Call call) {
    Fault fault;
    {
      const std::lock_guard guard(mutex_);
      fault = fault_;
    }
    if (fault) fault(call.name, call.ids);
    const std::lock_guard guard(mutex_);
    calls_.push_back(std::move(call));
  }
  std::atomic<bool> announces{false};  ///< all the time
  std::atomic<std::size_t> fleet{1};
  /// Renewals and outcomes are refused: others have the tasks.
  std::atomic<bool> has_leased_to_others{false};

  std::vector<LeasedTask> take(std::size_t limit, std::size_t starts) {
    const std::lock_guard guard(mutex_);
    std::vector<LeasedTask> taken;
    for (; !pending_.empty() && taken.size() < limit; pending_.pop_front()) {
      taken.push_back(std::move(pending_.front()));
      taken.back().started = taken.size() <= starts;
    }
    return taken;
  }

 private:
  std::mutex mutex_;
  std::deque<LeasedTask> pending_;
  std::vector<Call> calls_;
  Fault fault_;
};

class UnrulyStore : public TaskStore {
 public:
  explicit UnrulyStore(UnrulyServer& server) : server_(server) {}

  /// Hears of one task in each millisecond, and takes no time to rest.
  struct Listener : TaskListener {
    explicit Listener(UnrulyServer& announcing) : server(announcing) {}
    News wait(const std::stop_token& stop) override {
      server.execute({"wait", {}});
      sleep_for(1ms, stop);
      return {{{"t", 1}}};
    }
    void rest(std::chrono::milliseconds time, const std::stop_token&) override {
      server.execute({"rest", {}, std::to_string(time.count())});
    }
    UnrulyServer& server;
  };

  std::vector<LeasedTask> lease(const LeaseRequest& request, std::size_t starts) override {
    server_.execute({"lease",
                     {},
                     "limit " + std::to_string(request.limit) + " starts " +
                         std::to_string(starts) + " bytes " + std::to_string(request.max_bytes)});
    return server_.take(request.limit, starts);
  }
  Renewed extend(std::span<const Renewable> leases, std::chrono::milliseconds) override {
    Renewed reply;
    for (const Renewable& lease : leases) reply.renewed.push_back(lease.key.name());
    server_.execute({"extend", values(reply.renewed)});
    if (server_.has_leased_to_others) reply.renewed.clear();
    return reply;
  }
  std::vector<LeaseName> complete(std::span<const FinishedTask> tasks, Keep) override {
    return write("complete", tasks, [](auto& task) { return task.key; });
  }
  std::vector<LeaseName> release(std::span<const LeaseKey> keys,
                                 std::optional<std::chrono::milliseconds> delay,
                                 GivenBack when) override {
    return write(
        "release", keys, [](auto& key) { return key; },
        std::string(when == GivenBack::unstarted ? "unstarted" : "in order") +
            (delay ? ", later" : ""));
  }
  LeaseWrite progress(const LeaseKey& key, std::string_view json) override {
    server_.execute({"progress", {key.id.value}, std::string(json)});
    return LeaseWrite::accepted;
  }
  std::vector<FailOutcome> fail(std::span<const FailedTask> tasks) override {
    const bool dies = std::any_of(tasks.begin(), tasks.end(),
                                  [](const FailedTask& task) { return !task.retry_after; });
    const auto accepted = write(
        "fail", tasks, [](auto& task) { return task.key; },
        std::string(dies ? "for good: " : "") + std::string(tasks.front().error));
    return std::vector(tasks.size(), accepted.empty() ? FailOutcome::stale : FailOutcome::retried);
  }
  std::optional<StoredTask> get(TaskId id) override {
    server_.execute({"get", {id.value}});
    return std::nullopt;
  }
  void give_back_lost() override {}
  Upkeep look_after(std::string_view, const std::optional<RecoveryOptions>&) override {
    server_.execute({"look after", {}});
    return {{}, server_.fleet};
  }
  std::unique_ptr<TaskStore> twin(std::chrono::milliseconds) const override {
    return std::make_unique<UnrulyStore>(server_);
  }
  std::unique_ptr<TaskListener> listen() const override {
    server_.execute({"listen", {}});
    if (!server_.announces) return nullptr;
    return std::make_unique<Listener>(server_);
  }
  std::uint64_t retries() const override { return 0; }
  std::string where() const override { return "nowhere"; }

  std::vector<Enqueued> enqueue(std::span<const NewTask>) override { return {}; }
  void check_callers(const CallersTransaction&) const override {}
  std::vector<Enqueued> enqueue_in(const CallersTransaction&, std::span<const NewTask>) override {
    return {};
  }
  LeaseWrite complete_in(const CallersTransaction&, const FinishedTask&, Keep) override {
    return LeaseWrite::stale;
  }
  void transact(const std::function<void(sqlite3*)>&) override {}
  std::vector<TaskRecord> list(const TaskFilter&) override { return {}; }
  std::vector<TaskCount> counts(std::uint64_t) override { return {}; }
  QueueHealth health() override { return {}; }
  Update update(TaskId, TaskVersion, const TaskChanges&) override { return {}; }
  CancelOutcome cancel(TaskId) override { return {}; }
  RetryOutcome retry(TaskId) override { return {}; }
  Recovered recover(const ExpiredLease&, const RecoveryOptions&) override { return {}; }
  Removed remove_finished(TaskState, std::chrono::milliseconds, std::size_t) override { return {}; }

 private:
  static Ids values(const std::vector<LeaseName>& leases) {
    Ids all;
    for (const LeaseName& lease : leases) all.push_back(lease.id.value);
    return all;
  }
  template <typename Tasks, typename KeyOf>
  std::vector<LeaseName> write(const char* name, const Tasks& tasks, KeyOf&& key_of,
                               std::string text = {}) {
    std::vector<LeaseName> leases;
    for (const auto& task : tasks) leases.push_back(key_of(task).name());
    server_.execute({name, values(leases), std::move(text)});
    if (server_.has_leased_to_others) leases.clear();
    return leases;
  }

  UnrulyServer& server_;
};

class UnrulyStoreTest : public ::testing::Test {
 protected:
  UnrulyStoreTest() { std::tie(logger, log) = KeptLog::make(); }

  static LeasedTask task(std::int64_t id, std::string payload = "null") {
    return {.key = {TaskId{id}, TaskVersion{1}, LeaseId{1}},
            .type = "t",
            .payload = std::move(payload),
            .attempts = 1,
            .max_attempts = 10};
  }
  TaskRunPtr new_run(std::int64_t id) const {
    return std::make_shared<TaskRun>(task(id), kinds.front(), 0, BootClock::now() + 1h);
  }
  TaskRunPtr run_with(std::int64_t id, TaskOutcome outcome) const {
    auto run = new_run(id);
    run->stage = LeaseStage::settling;
    run->outcome = std::move(outcome);
    return run;
  }
  TaskRunPtr failed_run(std::int64_t id) const {
    return run_with(id, {.kind = TaskOutcome::Kind::fail, .text = "no", .delay = 1s});
  }
  /// A queue whose events are in `log`.
  std::shared_ptr<QueueCore> logging_core() {
    return std::make_shared<QueueCore>(std::make_unique<UnrulyStore>(server),
                                       TaskQueueOptions{.logger = logger});
  }
  /// A worker that calls `handler`, until the end of the test.
  void start_worker(TaskHandler handler, HandlerOptions how = {},
                    std::shared_ptr<TaskObserver> observer = nullptr) {
    kinds.front().handler = std::move(handler);
    kinds.front().options = how;
    telemetry = std::make_unique<WorkerTelemetry>(std::move(observer), logger);
    run_ = std::make_unique<WorkerRun>(*core, options, name, kinds, *telemetry);
    thread_ = std::jthread([this](const std::stop_token& stop) { run_->run(stop, {}); });
  }
  void request_stop() { thread_.request_stop(); }
  void wait_for_the_end() { thread_.join(); }

  UnrulyServer server;
  std::shared_ptr<spdlog::logger> logger;
  std::shared_ptr<KeptLog> log;
  const std::string name = "w";
  WorkerOptions options{.poll_max = 20ms};
  std::vector<TaskKind> kinds{{"t", [](Task&) {}, {}, Keep::yes}};
  std::shared_ptr<QueueCore> core =
      std::make_shared<QueueCore>(std::make_unique<UnrulyStore>(server),
                                  TaskQueueOptions{.backoff = {.first = 5ms, .longest = 10ms},
                                                   .logger = KeptLog::make().first});
  std::unique_ptr<WorkerTelemetry> telemetry = std::make_unique<WorkerTelemetry>(nullptr);

 private:
  std::unique_ptr<WorkerRun> run_;
  std::jthread thread_;
};

/// Calls the settler and the leaser themselves, without their threads.
class UnrulyStepsTest : public UnrulyStoreTest {
 protected:
  WorkerContext context(TaskBoard& board) {
    return {*core, options, name, board, *telemetry, outage};
  }
  /// Handlers have been called for these.
  std::vector<TaskRunPtr> start(TaskBoard& board, int tasks) const {
    std::vector<TaskRunPtr> runs;
    for (int i = 0; i < tasks; ++i) runs.push_back(new_run(i));
    board.add(runs);
    for (int i = 0; i < tasks; ++i) board.next({});
    return runs;
  }
  /// Does something without the memory for it: the first allocation fails, then the second, …
  /// After each, `check` is called.
  static void run_out_of_memory(const std::function<void()>& prepare,
                                const std::function<void()>& act,
                                const std::function<void()>& check) {
    for (int left = 0, failures = 0; failures < 1'000; ++left) {
      prepare();
      memory = {left, 1'000};
      try {
        act();
      } catch (const std::bad_alloc&) {
      }
      failures = std::exchange(memory, {}).failures;
      check();
    }
  }

  StoreOutage outage{logger, name};
};

TEST_F(UnrulyStepsTest, FailuresAreWrittenTogether) {
  TaskBoard board{kinds, 8, 0};
  const auto with = context(board);
  Settler settler{with};
  std::vector<TaskRunPtr> runs;
  for (int i = 0; i < 50; ++i) runs.push_back(failed_run(i));
  EXPECT_TRUE(settler.settle(runs).empty());
  ASSERT_EQ(server.calls("fail").size(), 1U);
  EXPECT_EQ(server.calls("fail").front().ids.size(), 50U);
}

TEST_F(UnrulyStepsTest, AFailureThatIsRefusedDoesNotHoldUpTheOthers) {
  for (const bool foreign : {false, true}) {
    server.set_fault([&](const std::string& call, const Ids& ids) {
      if (call != "fail" || !contains(ids, 7)) return;
      if (foreign) throw std::bad_alloc{};
      throw ServerRefused(ServerRefused::Reason::other, "not this one");
    });
    TaskBoard board{kinds, 8, 0};
    const auto with = context(board);
    Settler settler{with};
    std::vector<TaskRunPtr> runs;
    for (int i = 0; i < 20; ++i) runs.push_back(failed_run(i));
    const auto before = server.tasks_in("fail");
    const auto left = settler.settle(runs);
    ASSERT_EQ(left.size(), 1U);
    EXPECT_EQ(left.front()->task.key.id, TaskId{7});
    EXPECT_EQ(left.front()->in_doubt, foreign) << "nobody knows whether it was executed";
    EXPECT_EQ(server.tasks_in("fail"), before + 19);
  }
}

TEST_F(UnrulyStepsTest, AReleaseThatIsRefusedDoesNotHoldUpTheOthers) {
  int tries = 0;
  server.set_fault([&](const std::string& call, const Ids& ids) {
    if (call != "release" || !contains(ids, 7)) return;
    ++tries;
    throw ServerRefused(Reason::conflict, "its row is locked");
  });
  TaskBoard board{kinds, 8, 0};
  const auto with = context(board);
  Settler settler{with};
  std::vector<TaskRunPtr> runs;
  for (int i = 0; i < 512; ++i) runs.push_back(run_with(i, {.kind = TaskOutcome::Kind::release}));
  EXPECT_EQ(settler.settle(runs), std::vector{runs[7]});
  EXPECT_EQ(server.tasks_in("release"), 511U);
  EXPECT_EQ(tries, 4) << "each waits for the lock";
  EXPECT_FALSE(settler.away());
}

TEST_F(UnrulyStepsTest, OfTheLockedRowsOneIsTriedAtATime) {
  Ids tried;
  server.set_fault([&](const std::string& call, const Ids& ids) {
    if (call != "fail" || contains(ids, 9)) return;
    tried.push_back(ids.front());
    throw ServerRefused(Reason::conflict, "its row is locked");
  });
  TaskBoard board{kinds, 8, 0};
  const auto with = context(board);
  Settler settler{with};
  std::vector<TaskRunPtr> locked;
  for (int i = 1; i <= 3; ++i) locked.push_back(failed_run(i));
  for (const auto& run : locked) run->settles_alone = true;
  board.put_back(settler.settle({locked[0], locked[1], locked[2], failed_run(9)}));
  EXPECT_EQ(tried, Ids{1});
  EXPECT_EQ(server.tasks_in("fail"), 1U) << "of the one that is not locked";
  // Those that were not tried are next.
  for (const Ids& so_far : {Ids{1, 2}, Ids{1, 2, 3}}) {
    const auto next = board.take_outcomes({});
    board.put_back(settler.settle(next));
    if (next.front() == locked[0]) break;  // it took so long that its own time has come
    EXPECT_EQ(tried, so_far);
  }
}

TEST_F(UnrulyStepsTest, OfTheLockedRowsOneIsTriedAtATimeAlsoForProgress) {
  int tries = 0;
  server.set_fault([&](const std::string& call, const auto&) {
    if (call != "progress") return;
    ++tries;
    throw ServerRefused(Reason::conflict, "its row is locked");
  });
  TaskBoard board{kinds, 3, 0};
  const auto with = context(board);
  Settler settler{with};
  for (const auto& run : start(board, 3)) {
    run->settles_alone = true;
    EXPECT_TRUE(board.keep_progress(run, "1"));
  }
  settler.save_progress();
  EXPECT_EQ(tries, 1);
}

TEST_F(UnrulyStepsTest, WhatIsRefusedToAllIsNotTriedForEach) {
  for (const auto reason : {Reason::read_only, Reason::no_schema, Reason::cannot_save}) {
    int tries = 0;
    server.set_fault([&](const std::string& call, const auto&) {
      if (call == "look after") return;
      ++tries;
      throw ServerRefused(reason, "none of yours");
    });
    TaskBoard board{kinds, 8, 0};
    const auto with = context(board);
    Settler settler{with};
    EXPECT_EQ(settler.settle({failed_run(1), run_with(2, {}), failed_run(3)}).size(), 3U);
    EXPECT_EQ(tries, 1);
    EXPECT_TRUE(settler.away());
  }
}

TEST_F(UnrulyStepsTest, AStopEndsTheTries) {
  int tries = 0;
  std::stop_source stop;
  server.set_fault([&](const std::string& call, const auto&) {
    if (call != "fail") return;
    if (++tries == 2) stop.request_stop();
    throw ServerRefused(Reason::conflict, "the table is locked");
  });
  TaskBoard board{kinds, 8, 0};
  const auto with = context(board);
  Settler settler{with};
  std::vector<TaskRunPtr> runs;
  for (int i = 0; i < 64; ++i) runs.push_back(failed_run(i));
  EXPECT_EQ(settler.settle(runs, stop.get_token()).size(), 64U);
  EXPECT_EQ(tries, 2);
}

TEST_F(UnrulyStepsTest, AfterALookUpThatFailedTheOthersAreToldWithoutOne) {
  std::atomic<int> look_ups{0};
  server.set_fault([&](const std::string& call, const auto&) {
    if (call != "get") return;
    ++look_ups;
    throw Unavailable("away");
  });
  server.has_leased_to_others = true;
  TaskBoard board{kinds, 3, 0};
  const auto with = context(board);
  const auto lost = start(board, 3);
  Renewer renewer{with};
  EXPECT_EQ(renewer.renew_once(0ms), Renewer::Done::all);
  EXPECT_EQ(look_ups, 1);
  Settler settler{with};
  TaskBoard others{kinds, 3, 0};
  auto settling = start(others, 3);
  for (const auto& run : settling) others.returned(run, {});
  EXPECT_TRUE(settler.settle(others.take_outcomes({})).empty());
  EXPECT_EQ(look_ups, 2);
  for (const auto& runs : {lost, settling}) {
    for (const auto& run : runs) EXPECT_EQ(run->reason, StopReason::lease_lost);
  }
}

TEST_F(UnrulyStepsTest, UpkeepThatIsRefusedIsLoggedOnceAMinute) {
  core = logging_core();
  std::atomic<int> tries{0};
  server.set_fault([&](const std::string& call, const auto&) {
    if (call != "look after") return;
    ++tries;
    throw ServerRefused(Reason::permission, "no");
  });
  ASSERT_TRUE(eventually(
      [&] {
        core->look_after();
        return tries >= 3;
      },
      60s));
  EXPECT_EQ(log->count("task upkeep failed"), 1);
}

TEST_F(UnrulyStepsTest, ACallerWithoutMemoryDoesNotHoldUpTheOthers) {
  constexpr auto patience = 20s;
  Combiner<int> combiner(
      1, [](auto, const int&) { return true; }, [](auto) {}, patience);
  run_out_of_memory([] {},
                    [&] {
                      int item = 0;
                      combiner.submit(item);
                    },
                    [&] {
                      EXPECT_EQ(combiner.waiting(), 0U);
                      const auto begin = std::chrono::steady_clock::now();
                      int item = 0;
                      combiner.submit(item);
                      EXPECT_LT(std::chrono::steady_clock::now() - begin, patience);
                    });
}

TEST_F(UnrulyStepsTest, ARenewalThatRunsOutOfMemoryIsOver) {
  std::unique_ptr<TaskBoard> board;
  std::optional<WorkerContext> with;
  std::optional<Renewer> renewer;
  std::vector<TaskRunPtr> runs;
  run_out_of_memory(
      [&] {
        renewer.reset();
        with.reset();
        board = std::make_unique<TaskBoard>(kinds, 3, 0);
        with.emplace(context(*board));
        renewer.emplace(*with);
        runs = start(*board, 3);
      },
      [&] { renewer->renew_once(0ms); },
      [&] {
        for (const auto& run : runs) EXPECT_FALSE(run->renewing) << "hand_over() would wait";
      });
  EXPECT_GE(server.tasks_in("extend"), 3U);
}

TEST_F(UnrulyStepsTest, ProgressIsKeptIfThereIsNoMemoryToWriteIt) {
  std::unique_ptr<TaskBoard> board;
  std::optional<WorkerContext> with;
  std::optional<Settler> settler;
  std::vector<TaskRunPtr> runs;
  std::size_t before = 0;
  run_out_of_memory(
      [&] {
        settler.reset();
        with.reset();
        board = std::make_unique<TaskBoard>(kinds, 2, 0);
        with.emplace(context(*board));
        settler.emplace(*with);
        runs = start(*board, 2);
        for (const auto& run : runs) EXPECT_TRUE(board->keep_progress(run, "1"));
        before = server.tasks_in("progress");
      },
      [&] { settler->save_progress(); },
      [&] {
        std::size_t kept = 0;
        for (const auto& run : runs) {
          EXPECT_FALSE(run->saving) << "hand_over() would wait";
          kept += run->unsaved ? 1 : 0;
        }
        EXPECT_GE(server.tasks_in("progress") - before + kept, 2U);
      });
  EXPECT_GE(server.tasks_in("progress"), 2U);
}

TEST_F(UnrulyStepsTest, WhatWasRefusedByItselfIsNotWrittenWithOthersAgain) {
  int refused = 0;
  server.set_fault([&](const std::string& call, const Ids& ids) {
    if (call != "fail" || !contains(ids, 7)) return;
    ++refused;
    throw ServerRefused(ServerRefused::Reason::conflict, "its row is locked");
  });
  TaskBoard board{kinds, 8, 0};
  const auto with = context(board);
  Settler settler{with};
  auto left = settler.settle({failed_run(6), failed_run(7)});
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(refused, 2) << "with the other, and by itself";
  left.push_back(failed_run(8));
  EXPECT_EQ(settler.settle(left).size(), 1U);
  EXPECT_EQ(refused, 3);
}

/// The settler alone, with an outcome that is refused.
class RefusedForGoodStepsTest : public UnrulyStepsTest {
 protected:
  RefusedForGoodStepsTest() {
    core = logging_core();
    with.emplace(context(board));
    settler.emplace(*with);
  }
  /// A task whose handler has returned.
  TaskRunPtr returned(std::int64_t id, TaskOutcome outcome) {
    auto run = new_run(id);
    board.add({run});
    board.next({});
    board.returned(run, std::move(outcome));
    board.take_outcomes({});
    return run;
  }
  /// Writes it again and again.
  void settle(const TaskRunPtr& run, int times) {
    for (int i = 0; i < times; ++i) ASSERT_EQ(settler->settle({run}).size(), 1U) << "try " << i;
  }
  /// What `call` throws, unless it is null.
  void refuse(const std::string& call, std::exception_ptr error) {
    server.set_fault([=](const std::string& called, const auto&) {
      if (called == call) std::rethrow_exception(error);
    });
  }
  std::string written() { return server.history({"complete", "fail", "release"}); }

  static inline const auto no_room =
      std::make_exception_ptr(ServerRefused(Reason::other, "db: no room for \u2192"));
  static inline const auto foreign = std::make_exception_ptr(std::logic_error("a bug"));

  TaskBoard board{kinds, 1, 0};
  std::optional<WorkerContext> with;
  std::optional<Settler> settler;
};

TEST_F(RefusedForGoodStepsTest, ACompletionBecomesAFailureThatAnyDatabaseCanStore) {
  refuse("complete", no_room);
  const auto run = returned(1, {.text = "\"\u2192\""});
  settle(run, 5);
  EXPECT_EQ(written(), "");
  EXPECT_TRUE(settler->settle({run}).empty());
  EXPECT_EQ(written(), "fail the result could not be stored: db: no room for ???;");
  EXPECT_EQ(board.load().settling, 0U);
}

TEST_F(RefusedForGoodStepsTest, TheDelayIsThatOfTheRetryPolicy) {
  kinds.front().options.retry = Retry::never();
  refuse("complete", no_room);
  const auto run = returned(1, {});
  settle(run, 5);
  EXPECT_TRUE(settler->settle({run}).empty());
  EXPECT_EQ(written(), "fail for good: the completion could not be stored: db: no room for ???;");
}

TEST_F(RefusedForGoodStepsTest, AFailureKeepsTheErrorOfTheHandlerAndItsDelay) {
  refuse("fail", foreign);
  const auto run = returned(1, {.kind = TaskOutcome::Kind::fail, .text = "a \u2192\tb"});
  settle(run, 5);
  server.set_fault({});
  EXPECT_TRUE(settler->settle({run}).empty());
  EXPECT_EQ(written(), "fail for good: a ???\tb (the error as it was could not be stored: a bug);");
}

TEST_F(RefusedForGoodStepsTest, ALongErrorAndALongRefusalAreBothKept) {
  refuse("fail", std::make_exception_ptr(ServerRefused(Reason::other, std::string(9'000, 'r'))));
  const auto run =
      returned(1, {.kind = TaskOutcome::Kind::fail, .text = std::string(4'096, 'e'), .delay = 1s});
  settle(run, 5);
  server.set_fault({});
  EXPECT_TRUE(settler->settle({run}).empty());
  const auto text = server.calls("fail").front().text;
  EXPECT_LE(text.size(), 4'096U);
  EXPECT_TRUE(text.starts_with(std::string(2'000, 'e')));
  EXPECT_NE(text.find("could not be stored: " + std::string(500, 'r')), text.npos);
}

TEST_F(RefusedForGoodStepsTest, IfThatIsRefusedTooTheLeaseIsGivenUp) {
  for (const auto& error : {no_room, foreign}) {
    for (const auto kind : {TaskOutcome::Kind::complete, TaskOutcome::Kind::fail}) {
      const auto before = log->count("task outcome given up, its lease will expire");
      int refused = 0;
      server.set_fault([&](const std::string& call, const auto&) {
        if (call != "complete" && call != "fail") return;
        ++refused;
        std::rethrow_exception(error);
      });
      const auto run = returned(7, {.kind = kind, .text = "\"x\"", .delay = 1s});
      settle(run, 9);
      EXPECT_EQ(board.begin_renewal(BootClock::now()).size(), 1U);
      EXPECT_TRUE(settler->settle({run}).empty());
      EXPECT_EQ(refused, 10);
      EXPECT_EQ(log->count("task outcome given up, its lease will expire"), before + 1);
      EXPECT_EQ(board.load().settling, 0U);
      EXPECT_EQ(board.room().places, 1U);
      EXPECT_TRUE(board.begin_renewal(BootClock::now()).empty());
    }
  }
  EXPECT_EQ(log->count("task outcome given up, its lease will expire id=7 version=1 worker=w "
                       "during=fail error=\"db: no room for \u2192\""),
            2);
}

TEST_F(RefusedForGoodStepsTest, AReleaseIsGivenUpBecauseItHasNoTextThatCouldBeTheReason) {
  refuse("release", no_room);
  const auto run = returned(1, {.kind = TaskOutcome::Kind::release});
  settle(run, 4);
  EXPECT_TRUE(settler->settle({run}).empty());
  EXPECT_EQ(log->count("task outcome given up"), 1);
  EXPECT_EQ(written(), "");
}

TEST_F(RefusedForGoodStepsTest, WhatMayPassIsKept) {
  for (const auto reason : {Reason::conflict, Reason::out_of_memory, Reason::cannot_save,
                            Reason::read_only, Reason::no_schema}) {
    refuse("complete", std::make_exception_ptr(ServerRefused(reason, "not now")));
    const auto run = returned(1, {.text = "1"});
    settle(run, 20);
    if (HasFatalFailure()) return;
    server.set_fault({});
    const auto before = server.tasks_in("complete");
    EXPECT_TRUE(settler->settle({run}).empty());
    EXPECT_EQ(server.tasks_in("complete"), before + 1) << static_cast<int>(reason);
  }
  refuse("complete", std::make_exception_ptr(Unavailable("away")));
  const auto run = returned(1, {.text = "1"});
  settle(run, 20);
}

TEST_F(RefusedForGoodStepsTest, ARefusalOfABatchCountsForNobody) {
  TaskBoard two{kinds, 2, 0};
  const auto both = context(two);
  Settler settling{both};
  auto runs = start(two, 2);
  for (const auto& run : runs) two.returned(run, {});
  int alone = 0;
  server.set_fault([&](const std::string& call, const Ids& ids) {
    if (call != "complete" || !contains(ids, 0)) return;
    if (ids.size() == 1) ++alone;
    throw ServerRefused(Reason::other, "not this one");
  });
  auto left = settling.settle(two.take_outcomes({}));
  while (server.tasks_in("fail") == 0) left = settling.settle(left);
  EXPECT_EQ(alone, 5);
  EXPECT_EQ(server.tasks_in("complete"), 1U) << "of the other one";
}

TEST_F(RefusedForGoodStepsTest, ACompletionThatWasWrittenAllTheSameIsFound) {
  refuse("complete", foreign);
  const auto run = returned(1, {});
  settle(run, 5);
  server.has_leased_to_others = true;  // refuses the failure, because the task has ended
  EXPECT_TRUE(settler->settle({run}).empty());
  EXPECT_EQ(server.calls("get").size(), 1U);
  EXPECT_EQ(telemetry->snapshot().completed, 1U);
  EXPECT_EQ(telemetry->snapshot().lost, 0U);
}

TEST_F(RefusedForGoodStepsTest, TheProgressThatWasNotWrittenIsWrittenWithTheFailure) {
  refuse("complete", no_room);
  auto run = new_run(1);
  board.add({run});
  board.next({});
  EXPECT_TRUE(board.keep_progress(run, "50"));
  board.returned(run, {});
  board.take_outcomes({});
  settle(run, 5);
  EXPECT_TRUE(settler->settle({run}).empty());
  EXPECT_EQ(server.calls("progress").size(), 1U);
  EXPECT_EQ(server.calls("fail").size(), 1U);
}

TEST_F(RefusedForGoodStepsTest, ProgressThatIsRefusedForGoodDoesNotHoldUpTheOutcome) {
  refuse("progress", foreign);
  auto run = new_run(1);
  board.add({run});
  board.next({});
  EXPECT_TRUE(board.keep_progress(run, "50"));
  board.returned(run, {.kind = TaskOutcome::Kind::fail, .text = "no", .delay = 1s});
  board.take_outcomes({});
  settle(run, 4);
  EXPECT_TRUE(settler->settle({run}).empty());
  EXPECT_EQ(written(), "fail no;");
}

TEST_F(RefusedForGoodStepsTest, ALookUpThatIsRefusedIsRepeatedByItself) {
  TaskBoard two{kinds, 2, 0};
  const auto both = context(two);
  Settler settling{both};
  auto runs = start(two, 2);
  for (const auto& run : runs) two.returned(run, {});
  runs = two.take_outcomes({});
  server.set_fault([](const std::string& call, const auto&) {
    if (call == "get") throw ServerRefused(Reason::newer_schema, "unknown state");
    if (call == "complete") throw OutcomeUnknown("no reply");
  });
  EXPECT_EQ(settling.settle(runs).size(), 2U);
  EXPECT_TRUE(runs[0]->in_doubt);
  runs[1]->in_doubt = false;
  server.set_fault([](const std::string& call, const auto&) {
    if (call == "get") throw ServerRefused(Reason::newer_schema, "unknown state");
  });
  server.has_leased_to_others = true;
  EXPECT_EQ(settling.settle(runs), std::vector{runs[0]});
  EXPECT_TRUE(runs[0]->settles_alone) << "otherwise it would never be given up";
}

TEST_F(UnrulyStepsTest, OnlyAsManyTasksAreLeasedAsStartedAsThreadsAreIdle) {
  TaskBoard board{kinds, 4, 100};
  const auto with = context(board);
  Leaser leaser{with, kinds};
  for (int i = 0; i < 3; ++i) server.add(task(i));
  leaser.lease_once();
  leaser.lease_once();
  const auto leases = server.calls("lease");
  ASSERT_EQ(leases.size(), 2U);
  EXPECT_TRUE(leases[0].text.starts_with("limit 4 starts 4 ")) << leases[0].text;
  EXPECT_TRUE(leases[1].text.starts_with("limit 1 starts 1 ")) << leases[1].text;
}

TEST_F(UnrulyStepsTest, NoMoreBytesAreLeasedAheadThanAllowed) {
  TaskBoard board{kinds, 2, 100, 1'000};
  const auto with = context(board);
  Leaser leaser{with, kinds};
  // Quick ones, so that it leases ahead. So many that one during which we were not scheduled does
  // not count any more.
  for (int i = 0; i < 10'000 && board.room().places < 102; ++i) {
    server.add(task(i));
    leaser.lease_once();
    board.returned(board.next({}), {});
    board.settled(board.take_outcomes({}));
  }
  ASSERT_EQ(board.room().places, 102U);
  EXPECT_TRUE(server.calls("lease").back().text.ends_with(" bytes 1000"));

  for (int i = 0; i < 6; ++i) server.add(task(i, std::string(300, 'x')));
  EXPECT_EQ(leaser.lease_once(), Leaser::Found::all_it_asked_for) << "there are probably more";
  EXPECT_EQ(board.load().queued, 6U) << "our store does not count bytes";
  EXPECT_EQ(board.room().bytes, 0U);
  const auto leases = server.calls("lease").size();
  EXPECT_EQ(leaser.lease_once(), Leaser::Found::nothing);
  EXPECT_EQ(server.calls("lease").size(), leases) << "no thread is idle, nothing is asked";
  board.next({});
  board.next({});
  EXPECT_EQ(board.room().bytes, 0U);
  board.next({});
  EXPECT_EQ(board.room().bytes, 100U);
}

TEST_F(UnrulyStepsTest, WithoutRoomForBytesOnlyWhatStartsAtOnceIsLeased) {
  TaskBoard board{kinds, 2, 100, 0};
  const auto with = context(board);
  Leaser leaser{with, kinds};
  for (int i = 0; i < 10; ++i) server.add(task(i));
  leaser.lease_once();
  EXPECT_EQ(server.calls("lease").back().text, "limit 2 starts 2 bytes 16777216");
  EXPECT_EQ(board.load().queued, 2U);
}

TEST_F(UnrulyStoreTest, EveryThreadSurvivesWhatNoStoreShouldThrow) {
  options.lease = 300ms;
  std::mutex mutex;
  std::map<std::string, int> thrown;
  server.set_fault([&](const std::string& call, const auto&) {
    const std::lock_guard guard(mutex);
    const int times = ++thrown[call];
    if (times == 1) throw std::runtime_error("a bug");
    if (times == 2) throw std::bad_alloc{};
  });
  const Signal renewed;
  start_worker([&](Task& task) {
    if (task.id() == TaskId{1}) throw std::runtime_error("failed");
    if (task.id() == TaskId{2}) throw RetryLater{1h};
    if (task.id() == TaskId{3}) {
      EXPECT_TRUE(renewed.wait());
    }
  });
  for (int i = 0; i < 4; ++i) server.add(task(i));
  ASSERT_TRUE(eventually([&] { return !server.calls("extend").empty(); }, 60s));
  renewed.set();
  EXPECT_TRUE(eventually([&] { return server.tasks_in("complete") == 2; }, 60s));
  EXPECT_TRUE(eventually([&] { return server.tasks_in("fail") == 1; }, 60s));
  EXPECT_TRUE(eventually([&] { return server.tasks_in("release") == 1; }, 60s));
  EXPECT_TRUE(eventually([&] { return server.calls("listen").size() == 1; }, 60s));
}

TEST_F(UnrulyStoreTest, AHandlerIsToldOfALossEvenIfNobodyCanSayWhy) {
  options.lease = 3s;
  server.set_fault([](const std::string& call, const auto&) {
    if (call == "get") throw std::logic_error("unknown task state paused");
  });
  server.has_leased_to_others = true;
  std::atomic<StopReason> told{StopReason::none};
  start_worker([&](Task& task) {
    EXPECT_TRUE(eventually([&] { return task.stop_token().stop_requested(); }, 60s));
    told = task.stop_reason();
  });
  server.add(task(1));
  EXPECT_TRUE(eventually([&] { return told == StopReason::lease_lost; }, 60s));
}

TEST_F(UnrulyStoreTest, ALookUpThatHangsDoesNotKeepALossFromTheHandler) {
  options.lease = 1s;
  const Signal told;
  server.set_fault([told](const std::string& call, const auto&) {
    if (call == "get") {
      EXPECT_TRUE(told.wait());
    }
  });
  server.has_leased_to_others = true;
  start_worker([told](Task& task) {
    EXPECT_TRUE(testing::wait_for_stop(task.stop_token()));
    EXPECT_EQ(task.stop_reason(), StopReason::lease_lost);
    told.set();
  });
  server.add(task(1));
  EXPECT_TRUE(told.wait());
}

/// While one write of task 1 is refused again and again, 20 tasks run one after the other.
class SlowDownTest : public UnrulyStoreTest {
 protected:
  void expect_none(const std::string& refused_call, Reason reason) {
    std::atomic<int> refused{0};
    server.set_fault([&, reason](const std::string& call, const Ids& ids) {
      if (call != refused_call || !contains(ids, 1)) return;
      ++refused;
      throw ServerRefused(reason, "not this one");
    });
    const Signal end;
    start_worker([end, refused_call](Task& task) {
      if (task.id() != TaskId{1}) return;
      if (refused_call == "fail") throw std::runtime_error("no");
      EXPECT_EQ(task.progress("1"), LeaseWrite::deferred);
      EXPECT_TRUE(end.wait());
    });
    server.add(task(1));
    ASSERT_TRUE(eventually([&] { return refused >= 4; }, 60s));
    const int before = refused;
    for (std::size_t i = 1; i <= 20; ++i) {
      server.add(task(1 + static_cast<std::int64_t>(i)));
      ASSERT_TRUE(eventually([&] { return server.tasks_in("complete") == i; }, 60s));
    }
    EXPECT_LT(refused - before, 10) << "they waited for it";
    server.set_fault({});
    EXPECT_TRUE(eventually([&] { return server.tasks_in(refused_call) == 1; }, 60s));
    end.set();
  }
};

TEST_F(SlowDownTest, ByAnOutcomeThatIsRefused) { expect_none("fail", Reason::out_of_memory); }
TEST_F(SlowDownTest, ByProgressThatIsRefused) { expect_none("progress", Reason::conflict); }

/// A worker with a single place, and tasks whose outcomes are refused for good.
class RefusedForGoodTest : public UnrulyStoreTest {
 protected:
  RefusedForGoodTest() {
    options.concurrency = 1;
    options.prefetch = 0;
    core = logging_core();
  }
  void expect_that_it_goes_on() {
    server.add(task(9));
    EXPECT_TRUE(eventually(
        [&] {
          const auto completed = server.calls("complete");
          return !completed.empty() && contains(completed.back().ids, 9);
        },
        60s));
  }
};

TEST_F(RefusedForGoodTest, CompletionsBecomeFailuresAndTheWorkerGoesOn) {
  server.set_fault([](const std::string& call, const Ids& ids) {
    if (call == "complete" && !contains(ids, 9)) throw ServerRefused(Reason::other, "not storable");
  });
  start_worker([](Task& task) { task.set_result("1"); });
  server.add(task(1));
  EXPECT_TRUE(eventually([&] { return server.tasks_in("fail") == 1; }, 60s));
  EXPECT_EQ(server.calls("fail").front().text, "the result could not be stored: not storable");
  expect_that_it_goes_on();
}

TEST_F(RefusedForGoodTest, ALeaseThatIsGivenUpLeavesItsPlaceToOthers) {
  server.set_fault([](const std::string& call, const Ids& ids) {
    if (call == "fail" && contains(ids, 1)) throw ServerRefused(Reason::newer_schema, "paused?");
  });
  start_worker([](Task& task) {
    if (task.id() == TaskId{1}) throw std::runtime_error("no");
  });
  server.add(task(1));
  expect_that_it_goes_on();
  EXPECT_EQ(log->count("task outcome given up"), 1);
}

TEST_F(UnrulyStoreTest, WhatTheLastLeaseBringsIsGivenBackHoweverLongItTakes) {
  core = logging_core();
  const Signal leasing;
  const Signal stopped;
  const Signal tried;
  server.set_fault([=](const std::string& call, const auto&) {
    if (call == "release" && !tried.is_set()) {
      tried.set();
      throw Unavailable("away");  // for a moment
    }
    if (call != "lease" || leasing.is_set()) return;
    leasing.set();
    EXPECT_TRUE(stopped.wait());
    std::this_thread::sleep_for(5'500ms);  // longer than a stop waits for outcomes
  });
  server.add(task(1));
  start_worker([](Task&) {});
  ASSERT_TRUE(leasing.wait());
  request_stop();
  stopped.set();
  wait_for_the_end();
  EXPECT_EQ(server.tasks_in("release"), 1U);
  EXPECT_EQ(log->count("outcomes not written"), 0);
}

TEST_F(UnrulyStoreTest, ATaskFailsEvenIfThereIsNoMemoryForItsError) {
  class Wordy : public std::exception {
   public:
    const char* what() const noexcept override { return "more words than fit into a short string"; }
  };
  start_worker([](Task&) {
    memory = {.left = 0, .failures = 1};
    throw Wordy{};
  });
  server.add(task(1));
  EXPECT_TRUE(eventually([&] { return server.tasks_in("fail") == 1; }, 60s));
}

TEST_F(UnrulyStoreTest, AnObserverThatThrowsIsLogged) {
  class Thrower : public TaskObserver {
   public:
    void on_task_event(const TaskEvent& event) override {
      if (event.type == TaskEventType::started) throw 7;
      throw std::runtime_error("no room in my table");
    }
  };
  start_worker([](Task&) {}, {}, std::make_shared<Thrower>());
  server.add(task(1));
  EXPECT_TRUE(eventually([&] { return log->count("event=completed") == 1; }, 60s));
  EXPECT_EQ(log->count("task observer failed"), 3);
}

TEST_F(UnrulyStoreTest, ProgressDuringAnOutageIsWrittenLater) {
  std::atomic<bool> out{true};
  std::atomic<int> tried{0};
  server.set_fault([&](const std::string& call, const auto&) {
    if (call != "progress" || !out) return;
    ++tried;
    throw Unavailable("away");
  });
  const Signal written;
  const Signal deferred;
  start_worker([&](Task& task) {
    EXPECT_EQ(task.progress("1"), LeaseWrite::deferred);
    EXPECT_EQ(task.progress("2"), LeaseWrite::deferred) << "in place of the first";
    EXPECT_EQ(task.last_progress(), "2");
    deferred.set();
    EXPECT_TRUE(written.wait());
    EXPECT_TRUE(eventually([&] { return task.progress("3") == LeaseWrite::accepted; }, 60s))
        << "it is no longer busy with the second";
  });
  server.add(task(1));
  ASSERT_TRUE(deferred.wait());
  out = false;
  ASSERT_TRUE(eventually([&] { return server.tasks_in("progress") > 0; }, 60s));
  written.set();
  EXPECT_TRUE(eventually([&] { return server.tasks_in("complete") == 1; }, 60s));
  EXPECT_EQ(server.calls("progress").front().text, "2");
  EXPECT_EQ(server.calls("progress").back().text, "3");
}

TEST_F(UnrulyStoreTest, OlderProgressDoesNotReplaceNewer) {
  std::atomic<int> tries{0};
  const Signal writing;
  const Signal go_on;
  server.set_fault([&](const std::string& call, const auto&) {
    if (call != "progress") return;
    const int number = ++tries;
    if (number == 1) throw Unavailable("away");
    if (number == 2) {
      writing.set();
      EXPECT_TRUE(go_on.wait());
    }
  });
  start_worker([&](Task& task) {
    EXPECT_EQ(task.progress("1"), LeaseWrite::deferred);
    EXPECT_TRUE(writing.wait());
    EXPECT_EQ(task.progress("2"), LeaseWrite::deferred) << "the first is being written";
    go_on.set();
    EXPECT_TRUE(eventually([&] { return server.tasks_in("progress") == 2; }, 60s));
  });
  server.add(task(1));
  EXPECT_TRUE(eventually([&] { return server.tasks_in("complete") == 1; }, 60s));
  EXPECT_EQ(server.history({"progress"}), "progress 1;progress 2;");
}

TEST_F(UnrulyStoreTest, TheNextAttemptFindsTheProgressOfAnOutage) {
  // The handler ends before the store is back.
  std::atomic<bool> out{true};
  server.set_fault([&](const std::string& call, const auto&) {
    if (out && (call == "progress" || call == "release" || call == "complete")) {
      throw ServerRefused(ServerRefused::Reason::read_only, "a replica");
    }
  });
  std::atomic<int> ended{0};
  start_worker([&](Task& task) {
    EXPECT_EQ(task.progress("1"), LeaseWrite::deferred);
    ++ended;
    if (task.id() == TaskId{1}) throw RetryLater{1h};
  });
  server.add(task(1));
  server.add(task(2));
  ASSERT_TRUE(eventually([&] { return ended == 2; }, 60s));
  out = false;
  ASSERT_TRUE(eventually([&] { return server.tasks_in("complete") == 1; }, 60s));
  ASSERT_TRUE(eventually([&] { return server.tasks_in("release") == 1; }, 60s));
  ASSERT_GE(server.calls("progress").size(), 1U);
  EXPECT_EQ(server.calls("progress").front().ids.front(), 1);
  EXPECT_EQ(server.history({"progress", "release"}), "progress 1;release in order, later;")
      << "a completion replaces the progress";
}

TEST_F(UnrulyStoreTest, AWorkerWhoseLooksAreRareListensToTheNextTaskAllTheSame) {
  server.announces = true;
  server.fleet = 1'000;
  start_worker([](Task&) {});  // there are no tasks: it looks more and more rarely
  const auto times = [&] { return server.calls("rest").size(); };
  ASSERT_TRUE(eventually([&] { return times() >= 3; }, 60s));
  for (const auto& call : server.calls("rest")) EXPECT_GT(std::stoi(call.text), 0);
  server.announces = false;
  std::string previous;
  std::istringstream history{server.history({"wait", "rest"})};
  for (std::string call; std::getline(history, call, ';'); previous = call) {
    if (call.starts_with("rest")) {
      EXPECT_EQ(previous, "wait");
    }
  }
}

TEST_F(UnrulyStoreTest, AnnouncementsDoNotMakeTroubleMoreFrequent) {
  server.announces = true;
  std::atomic<int> leases{0};
  server.set_fault([&](const std::string& call, const auto&) {
    if (call != "lease") return;
    ++leases;
    throw ServerRefused(ServerRefused::Reason::permission, "no");
  });
  start_worker([](Task&) {});
  ASSERT_TRUE(eventually([&] { return server.calls("wait").size() >= 500; }, 60s));
  EXPECT_LE(leases, 10) << "in half a second: the pauses begin with 100 ms and double";
}

TEST_F(UnrulyStoreTest, ProgressThatIsRefusedForGoodIsThrown) {
  server.set_fault([](const std::string& call, const auto&) {
    if (call == "progress") throw ServerRefused(ServerRefused::Reason::permission, "no");
  });
  start_worker([](Task& task) { EXPECT_THROW(task.progress("1"), ServerRefused); });
  server.add(task(1));
  EXPECT_TRUE(eventually([&] { return server.tasks_in("complete") == 1; }, 60s));
}

TEST_F(UnrulyStoreTest, AnOutageThatAHandlerMeetsDoesNotCountAsAnAttempt) {
  const auto handler = [](Task& task) {
    if (task.id() == TaskId{1}) throw Unavailable("Redis is away");
    if (task.id() == TaskId{2}) throw OutcomeUnknown("PostgreSQL went away");
    if (task.id() == TaskId{3}) throw ServerRefused(ServerRefused::Reason::loading, "not yet");
    throw ServerRefused(ServerRefused::Reason::permission, "never");
  };
  start_worker(handler, {.retry = Retry::never()});
  for (int i = 1; i <= 4; ++i) server.add(task(i));
  EXPECT_TRUE(eventually([&] { return server.tasks_in("release") == 3; }, 60s));
  EXPECT_TRUE(eventually([&] { return server.tasks_in("fail") == 1; }, 60s));
  for (const auto& call : server.calls("release")) EXPECT_EQ(call.text, "in order, later");
  EXPECT_EQ(server.calls("fail").front().ids.front(), 4);
}

TEST_F(UnrulyStoreTest, AnOutageThatAHandlerMeetsCountsIfThatIsWanted) {
  start_worker([](Task&) { throw Unavailable("Redis is away"); }, {.outages = Outages::count});
  server.add(task(1));
  EXPECT_TRUE(eventually([&] { return server.tasks_in("fail") == 1; }, 60s));
  EXPECT_EQ(server.tasks_in("release"), 0U);
}

}  // namespace
}  // namespace leasehold
