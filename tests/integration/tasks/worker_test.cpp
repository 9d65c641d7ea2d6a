// The worker runtime: what becomes of tasks, and when they are run.
#include "leasehold/worker.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/kept_log.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/own_transaction.hpp"
#include "tests/support/postgres_tasks.hpp"
#include "tests/support/running_worker.hpp"
#include "tests/support/signal.hpp"
#include "tests/support/task_store.hpp"
#include "tests/support/test_namespace.hpp"
#include "tests/support/together.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <latch>
#include <map>
#include <set>

namespace leasehold::testing {
namespace {

class WorkerTest : public OnEveryTaskStore {
 protected:
  static std::string state_of(TaskId id) {
    return sql("SELECT state FROM " + every_task() + " WHERE id = " + std::to_string(id.value));
  }
  [[nodiscard]] static ::testing::AssertionResult becomes(TaskId id, const std::string& state) {
    return eventually([&] { return state_of(id) == state; }, 60s);
  }
  TaskId enqueue(NewTask task = {.type = "t"}) { return queue.enqueue(task).id; }

  TaskQueue queue{uri()};
};
ON_EVERY_STORE(WorkerTest);

TEST_P(WorkerTest, ReturningCompletesWithTheResult) {
  Worker worker{queue};
  worker.on("t", [](Task& task) {
    EXPECT_EQ(task.type(), "t");
    EXPECT_EQ(task.payload(), R"({"id":7})");
    EXPECT_EQ(task.attempt(), 1);
    EXPECT_EQ(task.max_attempts(), 10);
    EXPECT_EQ(task.priority(), 5);
    EXPECT_EQ(task.progress("50"), LeaseWrite::accepted);
    EXPECT_EQ(task.last_progress(), "50");
    EXPECT_FALSE(task.stop_token().stop_requested());
    EXPECT_EQ(task.stop_reason(), StopReason::none);
    task.set_result(R"({"frames":250})");
  });
  const auto id = enqueue({.type = "t", .payload = R"({"id":7})", .priority = 5});
  const RunningWorker running{worker};
  ASSERT_TRUE(becomes(id, "completed"));
  const auto record = queue.get(id);
  EXPECT_EQ(record->result, R"({"frames":250})");
  EXPECT_EQ(record->progress, "50");
  EXPECT_EQ(record->leased_by, queue.runner().str());
}

TEST_P(WorkerTest, ThrowingFailsWithTheMessageAndIsTriedAgain) {
  Worker worker{queue};
  worker.on("t",
            [](Task& task) {
              if (task.attempt() == 1) throw std::runtime_error("the disk was full");
            },
            {.retry = Retry::after(0ms)});
  const auto id = enqueue();
  const RunningWorker running{worker};
  ASSERT_TRUE(becomes(id, "completed"));
  EXPECT_EQ(queue.get(id)->attempts, 2);
  EXPECT_EQ(queue.get(id)->last_error, "the disk was full");
  EXPECT_TRUE(eventually([&] { return worker.stats().completed == 1; }));
  EXPECT_EQ(worker.stats().failed, 1U);
  EXPECT_EQ(worker.stats().dead, 0U);
}

TEST_P(WorkerTest, WhateverAHandlerThrowsTheThreadGoesOnAndTheTextIsBounded) {
  Worker worker{queue, {.concurrency = 1}};
  worker.on("int", [](Task&) { throw 7; }, {.retry = Retry::never()});
  worker.on("long", [](Task&) { throw std::runtime_error(std::string(100'000, 'x') + "\xff"); },
            {.retry = Retry::never()});
  worker.on("binary", [](Task&) { throw std::runtime_error("a\xff\nb"); },
            {.retry = Retry::never()});
  worker.on("t", [](Task&) {});
  const RunningWorker running{worker};
  const auto number = enqueue({.type = "int"});
  const auto long_text = enqueue({.type = "long"});
  const auto binary = enqueue({.type = "binary"});
  ASSERT_TRUE(becomes(number, "dead"));
  ASSERT_TRUE(becomes(long_text, "dead"));
  ASSERT_TRUE(becomes(binary, "dead"));
  EXPECT_TRUE(contains(queue.get(number)->last_error, "not a std::exception"));
  EXPECT_EQ(queue.get(long_text)->last_error.size(), 4096U);
  ASSERT_TRUE(becomes(enqueue(), "completed"));
}

TEST_P(WorkerTest, RetryLaterDoesNotCountAnAttempt) {
  Worker worker{queue};
  std::atomic<int> calls{0};
  worker.on("t", [&](Task& task) {
    EXPECT_EQ(task.attempt(), 1);
    if (++calls < 3) throw RetryLater{10ms};
  });
  worker.on("far", [](Task&) { throw RetryLater{1h}; });
  worker.on("bad", [](Task&) { throw RetryLater{-1ms}; }, {.retry = Retry::never()});
  const auto id = enqueue();
  const auto far = enqueue({.type = "far"});
  const auto bad = enqueue({.type = "bad"});
  const RunningWorker running{worker};
  ASSERT_TRUE(becomes(id, "completed"));
  EXPECT_EQ(calls, 3);
  ASSERT_TRUE(eventually([&] {
    const auto record = queue.get(far);
    return record->state == TaskState::pending && record->attempts == 0 &&
           record->run_at > std::chrono::system_clock::now() + 50min;
  }));
  ASSERT_TRUE(becomes(bad, "dead"));
  EXPECT_TRUE(contains(queue.get(bad)->last_error, "must be 0 ms to"));
}

TEST_P(WorkerTest, DeadLetterIsDeadAtOnce) {
  Worker worker{queue};
  worker.on("t", [](Task&) { throw DeadLetter{"no such customer"}; });
  const auto id = enqueue();
  const RunningWorker running{worker};
  ASSERT_TRUE(becomes(id, "dead"));
  EXPECT_EQ(queue.get(id)->last_error, "no such customer");
  EXPECT_EQ(queue.get(id)->attempts, 1);
}

TEST_P(WorkerTest, RetentionCanDifferByType) {
  Worker worker{queue};
  worker.on("kept", [](Task&) {});
  worker.on("gone", [](Task&) {}, {.retention = Retention::delete_at_once()});
  const auto kept = enqueue({.type = "kept"});
  const auto gone = enqueue({.type = "gone"});
  const RunningWorker running{worker};
  ASSERT_TRUE(becomes(kept, "completed"));
  EXPECT_TRUE(eventually([&] { return !queue.get(gone); }));
}

TEST_P(WorkerTest, BadOptionsAreRefusedWithTheValue) {
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { Worker(queue, {.concurrency = 0}); }),
                       "concurrency must be 1 to 1024, got 0"));
  EXPECT_THROW(Worker(queue, {.lease = 1ms}), InvalidArgument);
  EXPECT_THROW(Worker(queue, {.prefetch = 8'001}), InvalidArgument);
  EXPECT_THROW(Worker(queue, {.poll_min = 0ms}), InvalidArgument);
  EXPECT_THROW(Worker(queue, {.poll_min = 2s, .poll_max = 1s}), InvalidArgument);
  EXPECT_THROW(Worker(queue, {.stop_grace = -1ms}), InvalidArgument);
  EXPECT_THROW(Worker(queue, {.name = "a\nb"}), InvalidArgument);
  Worker worker{queue};
  EXPECT_THROW(worker.run({}), InvalidArgument) << "no handler";
  EXPECT_THROW(worker.on("", [](Task&) {}), InvalidArgument);
  EXPECT_THROW(worker.on("t", {}), InvalidArgument);
  EXPECT_THROW(worker.on("t", [](Task&) {}, {.limit = 0}), InvalidArgument);
  EXPECT_THROW(worker.on("t", [](Task&) {}, {.deadline = 0ms}), InvalidArgument);
  EXPECT_THROW(worker.on("t", [](Task&) {}, {.retry = Retry::after(-1ms)}), InvalidArgument);
  worker.on("t", [](Task&) {});
  EXPECT_THROW(worker.on("t", [](Task&) {}), InvalidArgument) << "twice";
}

TEST_P(WorkerTest, AResultThatIsNoJsonFailsTheTask) {
  Worker worker{queue};
  worker.on("t", [](Task& task) { task.set_result("{"); }, {.retry = Retry::never()});
  const auto id = enqueue();
  const RunningWorker running{worker};
  ASSERT_TRUE(becomes(id, "dead"));
  EXPECT_TRUE(contains(queue.get(id)->last_error, "is not JSON"));
}

TEST_P(WorkerTest, ARequeuedTaskThatItLeasesAgainStopsTheFirstHandler) {
  Worker worker{queue, {.concurrency = 2, .lease = 1s}};
  Signal started;
  Signal told;
  worker.on("t", [&](Task& task) {
    if (!started.is_set()) {
      started.set();
      EXPECT_TRUE(wait_for_stop(task.stop_token()));
      told.set();
    } else {
      EXPECT_TRUE(told.wait()) << "the renewal of the second lease is not one of the first";
    }
  });
  const auto id = enqueue();
  const RunningWorker running{worker};
  ASSERT_TRUE(started.wait());
  EXPECT_EQ(queue.cancel(id), CancelOutcome::was_leased);
  EXPECT_EQ(queue.retry(id), RetryOutcome::requeued);
  EXPECT_TRUE(told.wait());
}

TEST_P(WorkerTest, ManyTasksAreDoneOnceEachAndCompletedTogether) {
  constexpr int tasks = 5'000;
  Worker worker{queue, {.concurrency = 4}};
  std::mutex mutex;
  std::multiset<std::int64_t> seen;
  worker.on("t", [&](Task& task) {
    const std::lock_guard guard(mutex);
    seen.insert(task.id().value);
  });
  queue.enqueue(std::vector<NewTask>(tasks, {.type = "t"}));
  const RunningWorker running{worker};
  ASSERT_TRUE(eventually([&] { return worker.stats().completed == tasks; }, 120s));
  EXPECT_EQ(seen.size(), std::size_t(tasks));
  EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), std::size_t(tasks));
  EXPECT_EQ(count("state = 'completed' AND attempts = 1"), tasks);
  // Together: far fewer transactions than tasks.
  EXPECT_LT(
      std::stoi(sql(std::string("SELECT count(DISTINCT ") +
                    (in_postgres() ? "xmin::text" : "finished_at") + ") FROM " + every_task())),
      tasks / 5);
  const auto stats = worker.stats();
  // What a starved worker could not start within a second it gave back and leased again.
  EXPECT_EQ(stats.leased, std::uint64_t(tasks) + stats.released);
  EXPECT_EQ(sql("SELECT sum(version - 1) FROM " + every_task()),
            std::to_string(stats.leased + stats.released))
      << "each lease and each release adds 1, and nothing else does";
  EXPECT_EQ(stats.started, std::uint64_t(tasks));
  EXPECT_EQ(stats.run_time.count, std::uint64_t(tasks));
  EXPECT_EQ(stats.time_to_start.count, std::uint64_t(tasks));
  EXPECT_EQ(stats.running + stats.prefetched + stats.settling, 0U);
  EXPECT_EQ(queue.stats().completed, std::uint64_t(tasks)) << "the queue counts them too";
}

TEST_P(WorkerTest, SlowTasksAreNotLeasedAhead) {
  Worker worker{queue, {.concurrency = 2}};
  Signal go;
  worker.on("t", [&](Task&) { EXPECT_TRUE(go.wait()); });
  queue.enqueue(std::vector<NewTask>(20, {.type = "t"}));
  const RunningWorker running{worker};
  ASSERT_TRUE(eventually([&] { return worker.stats().running == 2; }, 60s));
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'leased'"), "2")
      << "others can have the rest";
  go.set();
  ASSERT_TRUE(eventually([&] { return worker.stats().completed == 20; }, 60s));
}

TEST_P(WorkerTest, WhatWasLeasedAheadAndCanNotBeStartedIsGivenBack) {
  Worker worker{queue, {.concurrency = 1}};
  Signal go;
  worker.on("quick", [&](Task& task) {
    if (task.payload() == "1") {
      EXPECT_TRUE(go.wait());
    }
  });
  // Quick ones, so that the worker leases ahead; then one that blocks the only thread.
  std::vector<NewTask> tasks(300, {.type = "quick", .payload = "0"});
  tasks[100].payload = "1";
  queue.enqueue(tasks);
  const RunningWorker running{worker};
  ASSERT_TRUE(eventually([&] { return worker.stats().released > 0; }, 60s));
  // Some may be leased once more before the worker has seen that its thread is blocked.
  EXPECT_TRUE(eventually(
      [&] { return sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'leased'") == "1"; },
      60s));
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'pending' AND attempts <> 0"),
            "0");
  go.set();
  ASSERT_TRUE(eventually([&] { return worker.stats().completed == 300; }, 60s));
}

TEST_P(WorkerTest, ATypeWithALimitIsNeverRunMoreOften) {
  Worker worker{queue, {.concurrency = 8}};
  std::atomic<int> now{0};
  std::atomic<int> most{0};
  std::atomic<int> others{0};
  worker.on("limited",
            [&](Task&) {
              const int running = ++now;
              int seen = most;
              while (seen < running && !most.compare_exchange_weak(seen, running)) {
              }
              std::this_thread::sleep_for(1ms);
              --now;
            },
            {.limit = 2});
  worker.on("one", [&](Task&) {}, {.limit = 1});
  worker.on("free", [&](Task&) { ++others; });
  queue.enqueue(std::vector<NewTask>(100, {.type = "limited"}));
  queue.enqueue(std::vector<NewTask>(20, {.type = "one"}));
  queue.enqueue(std::vector<NewTask>(100, {.type = "free"}));
  const RunningWorker running{worker};
  ASSERT_TRUE(eventually([&] { return worker.stats().completed == 220; }, 120s));
  EXPECT_EQ(most, 2);
  EXPECT_EQ(others, 100);
}

TEST_P(WorkerTest, ATypeAtItsLimitDoesNotHoldTasksThatOthersCouldHave) {
  Worker worker{queue, {.concurrency = 8}};
  Signal go;
  std::atomic<int> started{0};
  worker.on("limited",
            [&](Task&) {
              ++started;
              EXPECT_TRUE(go.wait());
            },
            {.limit = 2});
  queue.enqueue(std::vector<NewTask>(50, {.type = "limited"}));
  const RunningWorker running{worker};
  ASSERT_TRUE(eventually([&] { return started == 2; }, 60s));
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'leased'"), "2");
  go.set();
  ASSERT_TRUE(eventually([&] { return worker.stats().completed == 50; }, 60s));
}

TEST_P(WorkerTest, OneTaskDoesNotStarveBehindAThousandOfAnotherType) {
  Worker worker{queue, {.concurrency = 2}};
  std::atomic<int> crowd{0};
  std::atomic<int> crowd_before{-1};
  Signal enqueued;
  worker.on("crowd", [&](Task&) {
    std::this_thread::sleep_for(1ms);
    // The others are not done meanwhile, however long we take to enqueue it.
    if (++crowd >= 100) {
      EXPECT_TRUE(enqueued.wait());
    }
  });
  worker.on("single", [&](Task&) { crowd_before = crowd.load(); });
  queue.enqueue(std::vector<NewTask>(1'000, {.type = "crowd"}));
  const RunningWorker running{worker};
  ASSERT_TRUE(eventually([&] { return crowd >= 100; }, 60s));
  enqueue({.type = "single"});
  const int when_enqueued = crowd;
  enqueued.set();
  ASSERT_TRUE(eventually([&] { return crowd_before >= 0; }, 60s));
  EXPECT_LT(crowd_before, 1'000) << "it did not wait for all of them";
  // What is leased ahead is about 200 of them (100 ms), and it is not behind these either.
  EXPECT_LT(crowd_before - when_enqueued, 400);
  ASSERT_TRUE(eventually([&] { return worker.stats().completed == 1'001; }, 60s));
}

TEST_P(WorkerTest, TypesWithALimitAndTypesWithoutDoNotStarveEachOther) {
  for (const std::string single : {"open", "limited"}) {
    // One place, freed again and again: whoever always goes first would have it every time.
    Worker worker{queue, {.concurrency = 1, .prefetch = 0}};
    std::atomic<int> crowd{0};
    std::atomic<int> crowd_before{-1};
    const auto handle = [&](Task& task) {
      if (task.type() == single) {
        crowd_before = crowd.load();
      } else {
        std::this_thread::sleep_for(5ms);  // so that its place is taken at the second look
        ++crowd;
      }
    };
    worker.on("open", handle);
    worker.on("limited", handle, {.limit = 1});
    queue.enqueue(std::vector<NewTask>(30, {.type = single == "open" ? "limited" : "open"}));
    enqueue({.type = single});
    const RunningWorker running{worker};
    ASSERT_TRUE(eventually([&] { return worker.stats().completed == 31; }, 60s));
    EXPECT_LE(crowd_before, 5) << single;
  }
}

TEST_P(WorkerTest, CompleteInCommitsTheEffectWithTheTask) {
  sql("DROP TABLE IF EXISTS ledger; CREATE TABLE ledger (task bigint)");
  Worker worker{queue};
  worker.on("t",
            [&](Task& task) {
              in_transaction(queue, [&](const OwnTransaction& transaction) {
                transaction.execute("INSERT INTO ledger VALUES (" +
                                    std::to_string(task.id().value) + ")");
                transaction.complete_in(task, "7");
                EXPECT_THROW(task.progress("1"), InvalidArgument) << "it would wait for itself";
                if (task.payload() == "1" && task.attempt() == 1)
                  throw std::runtime_error("rolled back");
              });
              if (task.payload() == "2") throw std::runtime_error("after the commit");
            },
            {.retry = Retry::after(0ms)});
  const auto plain = enqueue({.type = "t", .payload = "0"});
  const auto rolled_back = enqueue({.type = "t", .payload = "1"});
  const auto committed = enqueue({.type = "t", .payload = "2"});
  const RunningWorker running{worker};
  ASSERT_TRUE(eventually([&] { return worker.stats().completed == 3; }, 60s));
  for (const auto id : {plain, rolled_back, committed}) {
    EXPECT_EQ(state_of(id), "completed");
    EXPECT_EQ(queue.get(id)->result, "7");
  }
  EXPECT_EQ(queue.get(rolled_back)->attempts, 2);
  EXPECT_EQ(queue.get(committed)->attempts, 1) << "what was committed is not run again";
  EXPECT_EQ(sql("SELECT count(*), count(DISTINCT task) FROM ledger"), "3|3");
}

TEST_P(WorkerTest, TheObserverIsToldOfEverything) {
  class Observer : public TaskObserver {
   public:
    void on_task_event(const TaskEvent& event) noexcept override {
      const std::lock_guard guard(mutex_);
      seen_[std::string(event.task_type)] += std::string(to_string(event.type)) + ' ';
    }
    std::string of(const std::string& type) {
      const std::lock_guard guard(mutex_);
      // What a starved worker could not start within a second it gives back and leases again.
      std::string seen = seen_[type];
      const std::string not_started = "leased released ";
      while (seen.starts_with(not_started)) seen.erase(0, not_started.size());
      return seen;
    }

   private:
    std::mutex mutex_;
    std::map<std::string, std::string> seen_;
  };
  auto observer = std::make_shared<Observer>();
  Worker worker{queue, {.concurrency = 1, .observer = observer}};
  worker.on("good", [](Task&) {});
  worker.on("bad", [](Task&) { throw std::runtime_error("no"); }, {.retry = Retry::after(1h)});
  worker.on("dead", [](Task&) { throw DeadLetter("no"); });
  worker.on("later", [](Task&) { throw RetryLater(1h); });
  for (const char* type : {"good", "bad", "dead", "later"}) enqueue({.type = type});
  const RunningWorker running{worker};
  EXPECT_TRUE(eventually([&] { return observer->of("good") == "leased started completed "; }));
  EXPECT_TRUE(eventually([&] { return observer->of("bad") == "leased started failed "; }));
  EXPECT_TRUE(eventually([&] { return observer->of("dead") == "leased started dead "; }));
  EXPECT_TRUE(eventually([&] { return observer->of("later") == "leased started released "; }));
}

TEST_P(WorkerTest, ANewTaskWakesAWorkerThatWouldNotLookForAnHour) {
  Worker worker{queue, {.poll_min = 1h, .poll_max = 1h}};
  worker.on("t", [](Task&) {});
  const RunningWorker running{worker};
  // In PostgreSQL it listens once its connection shows up; before, nothing would wake it.
  ASSERT_TRUE(eventually(
      [&] {
        return !in_postgres() ||
               sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN %' "
                   "AND datname = current_database()") == "1";
      },
      60s));
  TaskQueue another{uri()};
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(becomes((i == 0 ? queue : another).enqueue({.type = "t"}).id, "completed"));
  }
}

TEST_P(WorkerTest, WithoutNotifyTasksAreFoundByPolling) {
  TaskQueueOptions options;
  options.notify = Notify::off;
  TaskQueue silent{uri(), options};
  for (const auto wake_up : {WakeUp::poll, WakeUp::listen}) {
    Worker worker{silent, {.poll_max = 50ms, .wake_up = wake_up}};
    worker.on("t", [](Task&) {});
    const RunningWorker running{worker};
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(becomes(silent.enqueue({.type = "t"}).id, "completed"));
    }
  }
}

TEST_P(WorkerTest, ItRunsAgainAfterItHasStopped) {
  Worker worker{queue};
  worker.on("t", [](Task&) {});
  for (int i = 0; i < 2; ++i) {
    std::stop_source stop;
    std::jthread thread([&] { worker.run(stop.get_token()); });
    const auto id = enqueue();
    EXPECT_TRUE(becomes(id, "completed"));
    stop.request_stop();
  }
  EXPECT_EQ(worker.stats().completed, 2U);
}

TEST_P(WorkerTest, ACompletionThatIsRefusedDoesNotHoldUpTheOthers) {
  sql(in_postgres()
          ? "CREATE FUNCTION leasehold.refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE 'not this one'; END $$;"
            "CREATE TRIGGER refused BEFORE INSERT ON leasehold.finished_tasks FOR EACH ROW "
            "WHEN (new.result::text = '0') EXECUTE FUNCTION leasehold.refuse()"
          : "CREATE TRIGGER refused BEFORE UPDATE ON leasehold.tasks WHEN new.result = '0' "
            "BEGIN SELECT RAISE(ABORT, 'not this one'); END");
  Worker worker{queue, {.concurrency = 1}};
  worker.on("t", [](Task& task) { task.set_result(task.payload()); });
  std::vector<NewTask> tasks;
  for (int i = 0; i < 20; ++i) tasks.push_back({.type = "t", .payload = std::to_string(i)});
  queue.enqueue(tasks);
  const RunningWorker running{worker};
  const auto completed = [] { return count("state = 'completed'"); };
  EXPECT_TRUE(eventually([&] { return completed() == 19; }, 60s));
  sql(in_postgres() ? "DROP FUNCTION leasehold.refuse CASCADE" : "DROP TRIGGER refused");
  EXPECT_TRUE(eventually([&] { return completed() == 20; }, 60s)) << "it is tried again";
}

/// PostgreSQL locks rows: in SQLite everybody waits for an open transaction.
class ServerWorkerTest : public PostgresTaskTest {
 protected:
  TaskQueue queue{uri()};
};

TEST_F(ServerWorkerTest, LargeResultsAreNotWrittenAllAtOnce) {
  sql("CREATE TABLE leasehold.statements (bytes bigint);"
      "CREATE FUNCTION leasehold.weigh() RETURNS trigger LANGUAGE plpgsql AS "
      "$$ BEGIN INSERT INTO leasehold.statements SELECT sum(octet_length(result::text)) FROM new; "
      "RETURN NULL; END $$;"
      "CREATE TRIGGER weighed AFTER INSERT ON leasehold.finished_completed REFERENCING NEW TABLE "
      "AS new "
      "FOR EACH STATEMENT EXECUTE FUNCTION leasehold.weigh()");
  constexpr int tasks = 3;
  constexpr std::size_t bytes = 6 * 1024 * 1024;
  TaskQueue large{uri(), {.largest_payload = bytes}};
  large.enqueue(std::vector<NewTask>(tasks, {.type = "t"}));
  Worker worker{large, {.concurrency = tasks}};
  std::barrier all_have_theirs(tasks);  // so that they are settled together
  const std::string result = '"' + std::string(bytes - 2, 'x') + '"';
  worker.on("t", [&](Task& task) {
    task.set_result(result);
    all_have_theirs.arrive_and_wait();
  });
  const RunningWorker running{worker};
  EXPECT_TRUE(
      eventually([&] { return sql("SELECT count(*) FROM leasehold.finished_tasks") == "3"; }, 60s));
  EXPECT_EQ(sql("SELECT max(bytes) <= 16 * 1024 * 1024 FROM leasehold.statements"), "t");
}

/// Somebody has locked the row of one task: what its handler does then.
struct LockedRowCase {
  const char* name;
  std::function<void(Task&)> end;
  const char* result;  // state, attempts, last error, progress
};

class LockedRowTest : public PostgresTaskTest,
                      public ::testing::WithParamInterface<LockedRowCase> {};
INSTANTIATE_TEST_SUITE_P(
    , LockedRowTest,
    ::testing::Values(LockedRowCase{"Complete", [](Task&) {}, "completed|1||"},
                      LockedRowCase{"Release", [](Task&) { throw RetryLater{1h}; }, "pending|0||"},
                      LockedRowCase{"Fail", [](Task&) { throw std::runtime_error("no"); },
                                    "pending|1|no|"},
                      LockedRowCase{"Progress",
                                    [](Task& task) {
                                      EXPECT_EQ(task.progress("7"), LeaseWrite::deferred);
                                      throw RetryLater{1h};
                                    },
                                    "pending|0||7"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(LockedRowTest, DoesNotHoldUpOtherOutcomes) {
  const auto made = KeptLog::make();
  const auto& logger = made.first;
  const auto& log = made.second;
  TaskQueue queue{uri(),
                  {.postgres = {.command_timeout = 5min},
                   .backoff = {.first = 1h, .longest = 1h},
                   .logger = logger}};
  Worker worker{queue, {.concurrency = 4}};
  Signal go;
  std::latch started{4};
  worker.on("together", [&](Task& task) {
    started.count_down();
    EXPECT_TRUE(go.wait());
    if (task.payload() == "\"locked\"") GetParam().end(task);
  });
  worker.on("t", [](Task&) {});
  const auto id = queue.enqueue({.type = "together", .payload = "\"locked\""}).id;
  queue.enqueue(std::vector<NewTask>(3, {.type = "together"}));
  const RunningWorker running{worker};
  started.wait();
  const std::string row =
      " FROM " + std::string(every_task) + " WHERE id = " + std::to_string(id.value);
  pqxx::connection connection{uri()};
  pqxx::work lock{connection};
  lock.exec("SELECT FROM leasehold.tasks WHERE id = " + std::to_string(id.value) + " FOR UPDATE");
  go.set();
  const auto are_completed = [](int number) {
    return eventually(
        [&] {
          return sql("SELECT count(*) FROM leasehold.finished_tasks") == std::to_string(number);
        },
        60s);
  };
  for (int i = 1; i <= 20; ++i) {
    queue.enqueue({.type = "t"});
    ASSERT_TRUE(are_completed(3 + i));
    if (i != 10) continue;
    ASSERT_TRUE(eventually([&] { return log->count("worker refused") == 1; }, 60s));
  }
  EXPECT_EQ(sql("SELECT state" + row), "leased");
  lock.abort();
  EXPECT_TRUE(eventually(
      [&] {
        return sql("SELECT state, attempts, last_error, progress" + row) == GetParam().result;
      },
      60s))
      << sql("SELECT *" + row);
}

TEST_F(ServerWorkerTest, AnOpenTransactionOfOneHandlerDoesNotKeepTheOthersFromRenewal) {
  Worker worker{queue, {.concurrency = 2, .lease = 6s}};
  Signal handed_over;
  Signal commit;
  worker.on("joined", [&](Task& task) {
    pqxx::connection connection{uri()};
    pqxx::work transaction{connection};
    complete_in(transaction, task);
    handed_over.set();
    EXPECT_TRUE(commit.wait());
    transaction.commit();
  });
  Signal other_done;
  worker.on("other", [&](Task& task) {
    EXPECT_TRUE(other_done.wait());
    EXPECT_EQ(task.stop_reason(), StopReason::none);
  });
  const auto joined = queue.enqueue({.type = "joined"}).id;
  const auto other = queue.enqueue({.type = "other"}).id;
  const RunningWorker running{worker};
  ASSERT_TRUE(handed_over.wait());
  // Through the first lease and well into the next ones.
  const auto renewed = worker.stats().renewals;
  EXPECT_TRUE(eventually([&] { return worker.stats().renewals >= renewed + 4; }, 60s));
  EXPECT_TRUE(Recovery{queue}.run_once().tasks.empty()) << "one is locked, the other renewed";
  commit.set();
  other_done.set();
  for (const TaskId id : {joined, other}) {
    EXPECT_TRUE(eventually([&] { return queue.get(id)->state == TaskState::completed; }, 60s));
  }
  EXPECT_EQ(queue.get(other)->attempts, 1);
}

}  // namespace
}  // namespace leasehold::testing
