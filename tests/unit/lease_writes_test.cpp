// What becomes of the writes of a lease's holder when replies are lost, without any server.
#include "tasks/lease_writes.hpp"

#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <algorithm>
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
    unconfirmed,   ///< executed, but standbys may lack it
    reply_lost,    ///< executed, and then the connection is lost
    request_lost,  ///< the connection is lost before it is executed
    not_sent,      ///< Unavailable
  };
  std::deque<Fate> plan;                 ///< for the next writes; after that all are done
  std::set<std::int64_t> ours{1, 2, 3};  ///< tasks whose lease is the caller's
  std::set<std::int64_t> locked;         ///< tasks whose row somebody else has locked
  std::map<std::int64_t, StoredTask> records;
  bool can_look_up = true;
  int writes = 0;
  int look_ups = 0;
  std::vector<Renewable> renewable;  ///< of the last renewal

  std::vector<LeaseName> complete(std::span<const FinishedTask> tasks, Keep keep) override {
    return write<FinishedTask>(tasks, [&](const FinishedTask& task) {
      if (keep == Keep::yes) note(task.key, TaskState::completed);
    });
  }
  std::vector<LeaseName> release(std::span<const LeaseKey> keys,
                                 std::optional<std::chrono::milliseconds>, GivenBack) override {
    return write<LeaseKey>(keys, [&](const LeaseKey& key) { note(key, TaskState::pending); });
  }
  std::vector<FailOutcome> fail(std::span<const FailedTask> tasks) override {
    const auto accepted = write<FailedTask>(tasks, [&](const FailedTask& task) {
      const auto state = task.retry_after ? TaskState::pending : TaskState::dead;
      note(task.key, state).last_error = task.error;
    });
    std::vector<FailOutcome> outcomes;
    for (const FailedTask& task : tasks) {
      const bool stale =
          std::find(accepted.begin(), accepted.end(), task.key.name()) == accepted.end();
      outcomes.push_back(stale              ? FailOutcome::stale
                         : task.retry_after ? FailOutcome::retried
                                            : FailOutcome::dead);
    }
    return outcomes;
  }
  Renewed extend(std::span<const Renewable> leases, std::chrono::milliseconds) override {
    ++writes;
    renewable.assign(leases.begin(), leases.end());
    take_fate();
    Renewed reply;
    for (const auto& [key, started] : leases) {
      if (!ours.contains(key.id.value)) continue;
      (locked.contains(key.id.value) ? reply.locked : reply.renewed).push_back(key.name());
    }
    return reply;
  }
  std::optional<StoredTask> get(TaskId id) override {
    ++look_ups;
    if (!can_look_up) throw Unavailable("away");
    const auto found = records.find(id.value);
    return found == records.end() ? std::nullopt : std::optional(found->second);
  }

  TaskRecord& note(const LeaseKey& key, TaskState state) {
    StoredTask& stored = records[key.id.value];
    stored.record = {.id = key.id, .version = {key.version.value + 1}, .state = state};
    stored.lease = key.lease;
    return stored.record;
  }

  LeaseWrite progress(const LeaseKey&, std::string_view) override { unexpected(); }
  std::vector<Enqueued> enqueue(std::span<const NewTask>) override { unexpected(); }
  std::vector<LeasedTask> lease(const LeaseRequest&, std::size_t) override { unexpected(); }
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
  Recovered recover(const ExpiredLease&, const RecoveryOptions&) override { unexpected(); }
  void give_back_lost() override { unexpected(); }
  Upkeep look_after(std::string_view, const std::optional<RecoveryOptions>&) override {
    unexpected();
  }
  Removed remove_finished(TaskState, std::chrono::milliseconds, std::size_t) override {
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
  std::vector<LeaseName> write(std::span<const Item> items,
                               const std::function<void(const Item&)>& execute) {
    ++writes;
    const Fate fate = take_fate();
    std::vector<LeaseName> accepted;
    for (const Item& item : items) {
      LeaseKey key;
      if constexpr (std::is_same_v<Item, LeaseKey>) {
        key = item;
      } else {
        key = item.key;
      }
      if (ours.erase(key.id.value) == 0) continue;
      execute(item);
      accepted.push_back(key.name());
    }
    if (fate == Fate::unconfirmed) throw Unconfirmed("standbys may lack it");
    if (fate == Fate::reply_lost) throw OutcomeUnknown("lost");
    return accepted;
  }
};

class LeaseWritesTest : public ::testing::Test {
 protected:
  using Fate = PlannedStore::Fate;
  using Results = std::vector<WriteResult>;

  static LeasedTask task(std::int64_t id) {
    return {.key = {TaskId{id}, TaskVersion{1}, LeaseId{7}}};
  }
  LeaseWrites writes(LostReply lost_reply) { return {store, telemetry, logger, lost_reply}; }
  WriteResults complete(LostReply lost_reply, Keep keep = Keep::yes) {
    const FinishedLease finished[] = {{&second, {}}, {&first, {}}};
    return writes(lost_reply).complete(finished, keep);
  }
  WriteResults release(LostReply lost_reply) {
    HeldLease* const leases[] = {&first, &second};
    return writes(lost_reply).release(leases, std::nullopt, GivenBack::in_order);
  }
  LeaseWrites::Endings fail(LostReply lost_reply, HeldLease& lease) {
    const FailedLease failed{&lease, "boom", std::nullopt};
    return writes(lost_reply).fail({&failed, 1});
  }
  /// The second one is dead, the first one is tried again.
  LeaseWrites::Endings fail_both(LostReply lost_reply) {
    const FailedLease failed[] = {{&second, "second", std::nullopt}, {&first, "first", 1s}};
    return writes(lost_reply).fail(failed);
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

// Repeated, it would be found done, which says nothing about the standbys.
TEST_F(LeaseWritesTest, WhatStandbysMayLackIsNotRepeated) {
  store.plan = {Fate::unconfirmed};
  EXPECT_TRUE(is<OutcomeUnknown>(complete(LostReply::repeat).error));
  EXPECT_EQ(store.writes, 1);
  EXPECT_EQ(complete(LostReply::repeat).each,
            (Results{WriteResult::accepted, WriteResult::accepted}))
      << "whoever asks again hears what the server has";
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
  store.plan = {Fate::reply_lost};
  EXPECT_EQ(release(LostReply::repeat).each,
            (Results{WriteResult::accepted, WriteResult::accepted}));
}

TEST_F(LeaseWritesTest, AReleaseThatIsRefusedAfterACompletionInDoubtIsStale) {
  store.plan = {Fate::reply_lost};
  EXPECT_TRUE(complete(LostReply::report).error);
  EXPECT_EQ(release(LostReply::repeat).each, (Results{WriteResult::stale, WriteResult::stale}))
      << "the tasks are completed, not free for others";
}

TEST_F(LeaseWritesTest, AFailureInDoubtIsRecognisedByItsError) {
  store.plan = {Fate::reply_lost};
  const auto ours = fail(LostReply::repeat, first);
  EXPECT_EQ(ours.each, Results{WriteResult::accepted});
  EXPECT_EQ(ours.states, std::vector{TaskState::dead});

  second.in_doubt = true;
  store.ours.clear();
  store.note(second.task.key, TaskState::pending).last_error = "the lease of w expired";
  EXPECT_EQ(fail(LostReply::report, second).each, Results{WriteResult::stale});
  store.records.clear();
  EXPECT_EQ(fail(LostReply::report, second).each, Results{WriteResult::unknown});
}

TEST_F(LeaseWritesTest, FailuresOfOneBatchAreRecognisedOneByOne) {
  store.plan = {Fate::reply_lost};
  const auto failed = fail_both(LostReply::repeat);
  EXPECT_EQ(failed.each, (Results{WriteResult::accepted, WriteResult::accepted}));
  EXPECT_EQ(failed.states, (std::vector{TaskState::dead, TaskState::pending}));
  EXPECT_EQ(store.writes, 2);
  EXPECT_EQ(store.look_ups, 2);
  EXPECT_EQ(telemetry.failed.value(), 2U);
  EXPECT_EQ(telemetry.dead.value(), 1U);
}

TEST_F(LeaseWritesTest, InABatchOfFailuresARefusalConcernsOneTask) {
  store.ours = {1};
  const auto failed = fail_both(LostReply::report);
  EXPECT_EQ(failed.each, (Results{WriteResult::stale, WriteResult::accepted}));
  EXPECT_EQ(failed.states[1], TaskState::pending);
  EXPECT_EQ(store.look_ups, 0);
  EXPECT_EQ(telemetry.failed.value(), 1U);
  EXPECT_EQ(telemetry.dead.value(), 0U);
}

TEST_F(LeaseWritesTest, FailuresThatCannotBeLookedUpStayUndecidedAndAreDecidedLater) {
  store.plan = {Fate::reply_lost};
  EXPECT_TRUE(is<OutcomeUnknown>(fail_both(LostReply::report).error));
  store.can_look_up = false;
  auto failed = fail_both(LostReply::report);
  EXPECT_EQ(failed.each, (Results{WriteResult::undecided, WriteResult::undecided}));
  EXPECT_TRUE(is<Unavailable>(failed.error));
  EXPECT_EQ(store.look_ups, 1) << "each would wait for its own time-out";
  store.can_look_up = true;
  failed = fail_both(LostReply::report);
  EXPECT_EQ(failed.each, (Results{WriteResult::accepted, WriteResult::accepted}));
  EXPECT_EQ(failed.states, (std::vector{TaskState::dead, TaskState::pending}));
  EXPECT_EQ(telemetry.failed.value(), 2U) << "each counted once";
}

TEST_F(LeaseWritesTest, AFailureAfterTheHandlersOwnCommitIsACompletion) {
  first.perhaps_completed = true;
  store.ours.clear();
  store.note(first.task.key, TaskState::completed);
  const auto failed = fail(LostReply::report, first);
  EXPECT_EQ(failed.each, Results{WriteResult::accepted});
  EXPECT_EQ(failed.states, std::vector{TaskState::completed});
  EXPECT_EQ(telemetry.failed.value(), 0U);
}

// After a failover that lost the lease, the same version may have been leased to somebody else.
TEST_F(LeaseWritesTest, WhatAnotherLeaseOfTheSameVersionDidIsNotOurs) {
  const auto by_another = [&](const HeldLease& lease, TaskState state) -> TaskRecord& {
    TaskRecord& record = store.note(lease.task.key, state);
    store.records[lease.task.key.id.value].lease = LeaseId{8};
    return record;
  };
  store.ours.clear();
  first.in_doubt = second.in_doubt = true;
  by_another(first, TaskState::completed);
  store.note(second.task.key, TaskState::completed);
  EXPECT_EQ(complete(LostReply::report).each, (Results{WriteResult::accepted, WriteResult::stale}));

  first.perhaps_completed = true;
  EXPECT_EQ(fail(LostReply::report, first).each, Results{WriteResult::unknown})
      << "another worker has completed it";
  first.perhaps_completed = false;
  by_another(first, TaskState::dead).last_error = "boom";
  EXPECT_EQ(fail(LostReply::report, first).each, Results{WriteResult::unknown})
      << "another worker had the same error";
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

TEST_F(LeaseWritesTest, ARenewalThatFindsTheRowLockedIsUndecided) {
  HeldLease third{task(3), LeaseStage::held, HeldLease::Clock::now() + 1h};
  HeldLease* const leases[] = {&third, &second, &first};
  store.locked = {2, 3};
  store.ours = {1, 2};
  EXPECT_EQ(writes(LostReply::repeat).extend(leases, 10s).each,
            (Results{WriteResult::stale, WriteResult::undecided, WriteResult::accepted}));
  EXPECT_EQ(telemetry.extended.value(), 1U);
}

TEST_F(LeaseWritesTest, ARenewalSaysWhichTasksHaveBeenStarted) {
  HeldLease* const leases[] = {&second, &first};
  first.started = false;
  writes(LostReply::report).extend(leases, 10s);
  ASSERT_EQ(store.renewable.size(), 2U);
  EXPECT_EQ(store.renewable[0].key.id, TaskId{1}) << "in order of id";
  EXPECT_FALSE(store.renewable[0].started);
  EXPECT_TRUE(store.renewable[1].started);
}

}  // namespace
}  // namespace leasehold
