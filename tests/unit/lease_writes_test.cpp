// What becomes of the writes of a lease's holder when replies are lost, without any server.
#include "tasks/lease_writes.hpp"

#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "leasehold/errors.hpp"

namespace leasehold {
namespace {

using namespace std::chrono_literals;

/// Does to each write what the test has planned, and has the records that the test gives it.
class PlannedStore : public TaskStore {
 public:
  enum class Fate {
    done,          ///< executed and answered
    reply_lost,    ///< executed, and then the connection is lost
    request_lost,  ///< the connection is lost before it is executed
    not_sent,      ///< Unavailable
  };
  std::deque<Fate> plan;                 ///< for the next writes; after that all are done
  std::set<std::int64_t> ours{1, 2, 3};  ///< tasks whose lease is the caller's
  std::map<std::int64_t, TaskRecord> records;
  bool can_look_up = true;
  int writes = 0;
  int look_ups = 0;

  std::vector<TaskId> complete(std::span<const FinishedTask> tasks, Keep keep) override {
    return write<FinishedTask>(tasks, [&](const FinishedTask& task) {
      if (keep == Keep::yes) note(task.key, TaskState::completed);
      return task.key.id;
    });
  }
  std::vector<TaskId> release(std::span<const LeaseKey> keys,
                              std::optional<std::chrono::milliseconds>) override {
    return write<LeaseKey>(keys, [&](const LeaseKey& key) {
      note(key, TaskState::pending);
      return key.id;
    });
  }
  FailOutcome fail(const LeaseKey& key, const Failure& failure) override {
    const auto accepted = write<LeaseKey>({&key, 1}, [&](const LeaseKey& its_key) {
      note(its_key, TaskState::dead).last_error = failure.error;
      return its_key.id;
    });
    return accepted.empty() ? FailOutcome::stale : FailOutcome::dead;
  }
  std::vector<TaskId> extend(std::span<const LeaseKey> keys, std::chrono::milliseconds) override {
    ++writes;
    take_fate();
    std::vector<TaskId> accepted;
    for (const LeaseKey& key : keys) {
      if (ours.contains(key.id.value)) accepted.push_back(key.id);
    }
    return accepted;
  }
  std::optional<TaskRecord> get(TaskId id) override {
    ++look_ups;
    if (!can_look_up) throw Unavailable("away");
    const auto found = records.find(id.value);
    return found == records.end() ? std::nullopt : std::optional(found->second);
  }

  TaskRecord& note(const LeaseKey& key, TaskState state) {
    TaskRecord& record = records[key.id.value];
    record = {.id = key.id, .version = {key.version.value + 1}, .state = state};
    return record;
  }

  LeaseWrite progress(const LeaseKey&, std::string_view) override { unexpected(); }
  std::vector<Enqueued> enqueue(std::span<const NewTask>) override { unexpected(); }
  std::vector<LeasedTask> lease(const LeaseRequest&) override { unexpected(); }
  void check_callers(const CallersTransaction&) const override { unexpected(); }
  std::vector<Enqueued> enqueue_in(const CallersTransaction&, std::span<const NewTask>) override {
    unexpected();
  }
  LeaseWrite complete_in(const CallersTransaction&, const FinishedTask&, Keep) override {
    unexpected();
  }
  void transact(const std::function<void(sqlite3*)>&) override { unexpected(); }
  std::vector<TaskRecord> list(const TaskFilter&) override { unexpected(); }
  std::vector<TaskCount> counts(std::uint64_t) override { unexpected(); }
  QueueHealth health() override { unexpected(); }
  Update update(TaskId, TaskVersion, const TaskChanges&) override { unexpected(); }
  CancelOutcome cancel(TaskId) override { unexpected(); }
  RetryOutcome retry(TaskId) override { unexpected(); }
  std::vector<RecoveredTask> recover(TaskId, const RecoveryOptions&) override { unexpected(); }
  std::uint64_t remove_finished(TaskState, std::chrono::milliseconds, std::size_t) override {
    unexpected();
  }
  std::unique_ptr<TaskStore> twin(std::chrono::milliseconds) const override { unexpected(); }
  std::unique_ptr<TaskListener> listen() const override { unexpected(); }
  std::uint64_t retries() const override { return 0; }
  std::string where() const override { return "nowhere"; }

 private:
  [[noreturn]] static void unexpected() { throw std::logic_error("not expected"); }

  Fate take_fate() {
    if (plan.empty()) return Fate::done;
    const Fate fate = plan.front();
    plan.pop_front();
    if (fate == Fate::not_sent) throw Unavailable("away");
    if (fate == Fate::request_lost) throw OutcomeUnknown("lost");
    return fate;
  }

  template <typename Item>
  std::vector<TaskId> write(std::span<const Item> items,
                            const std::function<TaskId(const Item&)>& execute) {
    ++writes;
    const Fate fate = take_fate();
    std::vector<TaskId> accepted;
    for (const Item& item : items) {
      LeaseKey key;
      if constexpr (std::is_same_v<Item, LeaseKey>) {
        key = item;
      } else {
        key = item.key;
      }
      if (ours.erase(key.id.value) > 0) accepted.push_back(execute(item));
    }
    if (fate == Fate::reply_lost) throw OutcomeUnknown("lost");
    return accepted;
  }
};

class LeaseWritesTest : public ::testing::Test {
 protected:
  using Fate = PlannedStore::Fate;
  using Results = std::vector<WriteResult>;

  static LeasedTask task(std::int64_t id) { return {.key = {TaskId{id}, TaskVersion{1}}}; }
  LeaseWrites writes(LostReply lost_reply) { return {store, telemetry, logger, lost_reply}; }
  WriteResults complete(LostReply lost_reply, Keep keep = Keep::yes) {
    const FinishedLease finished[] = {{&second, {}}, {&first, {}}};
    return writes(lost_reply).complete(finished, keep);
  }
  template <typename Exception>
  static bool is(const std::exception_ptr& error) {
    if (!error) return false;
    try {
      std::rethrow_exception(error);
    } catch (const Exception&) {
      return true;
    } catch (...) {
      return false;
    }
  }

  PlannedStore store;
  TaskTelemetry telemetry;
  spdlog::logger logger{"none"};
  HeldLease first{task(1), LeaseStage::held, HeldLease::Clock::now() + 1h};
  HeldLease second{task(2), LeaseStage::held, HeldLease::Clock::now() + 1h};
};

TEST_F(LeaseWritesTest, ResultsAreInTheOrderOfTheLeases) {
  store.ours = {1};
  EXPECT_EQ(complete(LostReply::report).each, (Results{WriteResult::stale, WriteResult::accepted}));
  EXPECT_EQ(telemetry.completed.value(), 1U);
  EXPECT_EQ(store.look_ups, 0) << "a refusal is a refusal";
}

TEST_F(LeaseWritesTest, ALostReplyIsRepeatedAndLookedUp) {
  store.plan = {Fate::reply_lost};
  EXPECT_EQ(complete(LostReply::repeat).each,
            (Results{WriteResult::accepted, WriteResult::accepted}));
  EXPECT_EQ(store.writes, 2);
  EXPECT_EQ(store.look_ups, 2);
  EXPECT_EQ(telemetry.completed.value(), 2U);
  EXPECT_EQ(telemetry.outcomes_unknown.value(), 1U);
}

TEST_F(LeaseWritesTest, ALostRequestIsMadeAgain) {
  store.plan = {Fate::request_lost};
  EXPECT_EQ(complete(LostReply::repeat).each,
            (Results{WriteResult::accepted, WriteResult::accepted}));
  EXPECT_EQ(store.look_ups, 0);
}

TEST_F(LeaseWritesTest, IfRepeatingFailsTheOutcomeIsUnknownUntilTheNextCall) {
  store.plan = {Fate::reply_lost, Fate::not_sent};
  const auto results = complete(LostReply::repeat);
  EXPECT_TRUE(is<OutcomeUnknown>(results.error)) << "although the second attempt was not sent";
  EXPECT_EQ(results.each, (Results{WriteResult::undecided, WriteResult::undecided}));
  EXPECT_EQ(telemetry.completed.value(), 0U);
  EXPECT_EQ(complete(LostReply::repeat).each,
            (Results{WriteResult::accepted, WriteResult::accepted}));
  EXPECT_EQ(telemetry.completed.value(), 2U);
}

TEST_F(LeaseWritesTest, WhatWasNotSentIsUnavailableAndNotInDoubt) {
  store.plan = {Fate::not_sent};
  EXPECT_TRUE(is<Unavailable>(complete(LostReply::repeat).error));
  EXPECT_FALSE(first.in_doubt);
}

TEST_F(LeaseWritesTest, ReportLeavesRepeatingToTheCaller) {
  store.plan = {Fate::reply_lost};
  EXPECT_TRUE(is<OutcomeUnknown>(complete(LostReply::report).error));
  EXPECT_EQ(store.writes, 1);
  EXPECT_TRUE(first.in_doubt);
  EXPECT_EQ(complete(LostReply::report).each,
            (Results{WriteResult::accepted, WriteResult::accepted}));
}

TEST_F(LeaseWritesTest, AFailedLookUpConcernsOnlyWhatIsInDoubt) {
  second.in_doubt = true;
  store.ours = {1};
  store.can_look_up = false;
  auto results = complete(LostReply::report);
  EXPECT_EQ(results.each, (Results{WriteResult::undecided, WriteResult::accepted}));
  EXPECT_TRUE(is<Unavailable>(results.error));

  store.ours = {1};
  results = complete(LostReply::repeat);
  EXPECT_EQ(results.each, (Results{WriteResult::undecided, WriteResult::undecided}))
      << "one answer for all";
  EXPECT_TRUE(is<OutcomeUnknown>(results.error));
}

TEST_F(LeaseWritesTest, ADeletedTaskWasCompletedByUsWhileTheLeaseIsValid) {
  store.plan = {Fate::reply_lost};
  second.valid_until = HeldLease::Clock::now() - 1s;
  EXPECT_TRUE(complete(LostReply::report, Keep::no).error);
  EXPECT_EQ(complete(LostReply::report, Keep::no).each,
            (Results{WriteResult::unknown, WriteResult::accepted}));
  EXPECT_TRUE(is<OutcomeUnknown>(complete(LostReply::repeat, Keep::no).error));
}

TEST_F(LeaseWritesTest, AReleaseInDoubtThatIsRefusedHasDoneWhatWasWanted) {
  HeldLease* const leases[] = {&first, &second};
  store.plan = {Fate::reply_lost};
  EXPECT_EQ(writes(LostReply::repeat).release(leases, std::nullopt).each,
            (Results{WriteResult::accepted, WriteResult::accepted}));
}

TEST_F(LeaseWritesTest, AReleaseThatIsRefusedAfterACompletionInDoubtIsStale) {
  store.plan = {Fate::reply_lost};
  EXPECT_TRUE(complete(LostReply::report).error);
  HeldLease* const leases[] = {&first, &second};
  EXPECT_EQ(writes(LostReply::repeat).release(leases, std::nullopt).each,
            (Results{WriteResult::stale, WriteResult::stale}))
      << "the tasks are completed, not free for others";
}

TEST_F(LeaseWritesTest, AFailureInDoubtIsRecognisedByItsError) {
  store.plan = {Fate::reply_lost};
  const auto ours = writes(LostReply::repeat).fail(first, {"boom", std::nullopt});
  EXPECT_EQ(ours.result, WriteResult::accepted);
  EXPECT_EQ(ours.state, TaskState::dead);

  second.in_doubt = true;
  store.ours.clear();
  store.note(second.task.key, TaskState::pending).last_error = "the lease of w expired";
  EXPECT_EQ(writes(LostReply::report).fail(second, {"boom", std::nullopt}).result,
            WriteResult::stale);
  store.records.clear();
  EXPECT_EQ(writes(LostReply::report).fail(second, {"boom", std::nullopt}).result,
            WriteResult::unknown);
}

TEST_F(LeaseWritesTest, AFailureAfterTheHandlersOwnCommitIsACompletion) {
  first.perhaps_completed = true;
  store.ours.clear();
  store.note(first.task.key, TaskState::completed);
  const auto failed = writes(LostReply::report).fail(first, {"boom", std::nullopt});
  EXPECT_EQ(failed.result, WriteResult::accepted);
  EXPECT_EQ(failed.state, TaskState::completed);
  EXPECT_EQ(telemetry.failed.value(), 0U);
}

TEST_F(LeaseWritesTest, ARenewalIsRepeatedAndTrustedFromTheSecondRequestOn) {
  HeldLease* const leases[] = {&first, &second};
  store.plan = {Fate::request_lost};
  store.ours = {2};
  const auto before = HeldLease::Clock::now();
  const auto renewal = writes(LostReply::repeat).extend(leases, 10s);
  EXPECT_EQ(renewal.each, (Results{WriteResult::stale, WriteResult::accepted}));
  EXPECT_GE(renewal.valid_until, before + 10s - trust_margin(10s));
  EXPECT_LT(renewal.valid_until, HeldLease::Clock::now() + 10s);
  EXPECT_FALSE(first.in_doubt) << "a renewal ends nothing";
}

}  // namespace
}  // namespace leasehold
