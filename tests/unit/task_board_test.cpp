// Which tasks a worker starts, keeps and gives back, without any server.
#include "tasks/runtime/task_board.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace leasehold {
namespace {

using namespace std::chrono_literals;
using Clock = TaskBoard::Clock;

class TaskBoardTest : public ::testing::Test {
 protected:
  static TaskRunPtr make(LeasedTask task) {
    return std::make_shared<TaskRun>(std::move(task), kinds.front(), 0, Clock::now() + 1h);
  }
  static LeasedTask task(std::int64_t id, bool started = false) {
    return {.key = {TaskId{id}, TaskVersion{1}, LeaseId{1}}, .type = "t", .started = started};
  }
  static TaskRunPtr make(std::int64_t id, bool started = false) { return make(task(id, started)); }
  static TaskRunPtr make_suspect(std::int64_t id, int crashes = 1) {
    LeasedTask suspect = task(id, true);
    suspect.suspect = true;
    suspect.crash_count = crashes;
    return make(std::move(suspect));
  }
  static TaskRunPtr make_dangerous(std::int64_t id) { return make_suspect(id, 2); }
  /// The next task to be started, or null if none may be started now.
  TaskRunPtr next_now() {
    std::stop_source stop;
    stop.request_stop();
    return board.next(stop.get_token());
  }
  /// Quick handlers, so that the board would lease ahead. So many that one during which we were
  /// not scheduled does not count any more.
  void learn_that_tasks_are_quick() {
    for (int i = 0; i < 10'000 && board.room().places < concurrency + prefetch; ++i) {
      board.add({make(1'000)});
      const auto run = board.next({});
      EXPECT_EQ(board.returned(run, {}), TaskBoard::Return::settling);
      settle_all();
    }
    EXPECT_GT(board.room().places, concurrency);
  }
  /// Returns how many.
  std::size_t settle_all() {
    if (board.load().settling == 0) return 0;
    const auto runs = board.take_outcomes({});
    board.settled(runs);
    return runs.size();
  }
  static TaskOutcome fail(const TaskRun&) { return {.kind = TaskOutcome::Kind::fail}; }

  static constexpr std::size_t concurrency = 4;
  static constexpr std::size_t prefetch = 100;
  static inline const std::vector<TaskKind> kinds{{"t", [](Task&) {}, {}, Keep::yes}};
  TaskBoard board{kinds, concurrency, prefetch};
};

TEST_F(TaskBoardTest, LeasesAheadOnlyWhenTasksAreQuick) {
  EXPECT_EQ(board.room().places, concurrency) << "nothing is known yet";
  learn_that_tasks_are_quick();
  EXPECT_EQ(board.room().places, concurrency + prefetch);
}

TEST_F(TaskBoardTest, ATaskKeepsItsPlaceUntilItsOutcomeIsAcknowledged) {
  board.add({make(1)});
  const auto run = board.next({});
  board.returned(run, {.kind = TaskOutcome::Kind::release});
  EXPECT_EQ(board.load().settling, 1U);
  const auto taken = board.take_outcomes({});
  EXPECT_EQ(board.load().settling, 1U) << "taken, not acknowledged";
  EXPECT_EQ(board.begin_renewal(Clock::now()).size(), 1U) << "and renewed";
  board.settled(taken);
  EXPECT_EQ(board.load().settling, 0U);
  EXPECT_TRUE(board.begin_renewal(Clock::now()).empty());
}

TEST_F(TaskBoardTest, AStopGivesBackAtOnceWhatWasNotStartedAndWhatComesLater) {
  board.add({make(1), make(2), make(3)});
  const auto run = board.next({});
  board.close();
  EXPECT_EQ(board.load().queued, 0U);
  board.add({make(4)});  // of a lease that was under way
  EXPECT_EQ(settle_all(), 3U);
  ASSERT_EQ(board.call_off().size(), 1U);
  EXPECT_EQ(board.returned(run, {}), TaskBoard::Return::too_late);
  EXPECT_EQ(settle_all(), 1U);
  EXPECT_EQ(board.load().settling, 0U);
}

TEST_F(TaskBoardTest, WhatIsNotStartedForASecondIsGivenBack) {
  const auto before = Clock::now();
  board.add({make(1)});
  EXPECT_TRUE(board.ring(before, fail).due.empty());
  EXPECT_EQ(board.load().queued, 1U);
  board.ring(Clock::now() + 2s, fail);
  EXPECT_EQ(board.load().queued, 0U);
  EXPECT_EQ(settle_all(), 1U);
}

TEST_F(TaskBoardTest, WhatWasLeasedAsStartedBeginsFirst) {
  board.add({make(1), make(2)});
  board.add({make(3, true), make(4), make(5, true)});
  for (const std::int64_t id : {3, 5, 1, 2}) EXPECT_EQ(board.next({})->task.key.id.value, id);
}

TEST_F(TaskBoardTest, ATaskIsStartedFromTheCallOfItsHandlerOn) {
  board.add({make(1)});
  const auto due = board.begin_renewal(Clock::now());
  ASSERT_EQ(due.size(), 1U);
  EXPECT_FALSE(due.front()->started) << "it was leased ahead";
  board.next({});
  EXPECT_TRUE(due.front()->started);
}

TEST_F(TaskBoardTest, OnlyIdleThreadsStartTasks) {
  EXPECT_EQ(board.room().idle, concurrency);
  board.add({make(1), make(2)});
  EXPECT_EQ(board.room().idle, concurrency - 2);
  const auto run = board.next({});
  EXPECT_EQ(board.room().idle, concurrency - 2);
  board.returned(run, {});
  EXPECT_EQ(board.room().idle, concurrency - 1);
  board.add({make(3), make(4), make(5), make(6), make(7)});
  EXPECT_EQ(board.room().idle, 0U);
}

TEST_F(TaskBoardTest, WhatIsGivenBackBeforeItsHandlerWasCalledIsUnstarted) {
  board.add({make(1, true), make(2), make(3)});
  board.returned(board.next({}), {.kind = TaskOutcome::Kind::release});
  const auto running = board.next({});
  board.close();
  board.call_off();
  for (const auto& run : board.take_outcomes({})) {
    EXPECT_EQ(run->outcome.when, run->started_at ? GivenBack::in_order : GivenBack::unstarted)
        << run->task.key.id.value;
  }
}

TEST_F(TaskBoardTest, ASuspectThatWouldHaveToWaitIsGivenBack) {
  learn_that_tasks_are_quick();
  std::vector<TaskRunPtr> suspects;
  for (int i = 0; i < 50; ++i) suspects.push_back(make_suspect(i));
  board.add(suspects);
  EXPECT_EQ(board.load().queued, concurrency) << "a crash takes no more than that along";
  EXPECT_EQ(settle_all(), 50 - concurrency) << "the others are given back";
  for (std::size_t i = 0; i < concurrency; ++i) board.returned(board.next({}), {});
  settle_all();
  EXPECT_EQ(board.room().places, concurrency) << "there may be more of them";
  board.add({make(1)});
  EXPECT_GT(board.room().places, concurrency) << "there are none";
}

TEST_F(TaskBoardTest, ADangerousTaskBeginsAlone) {
  learn_that_tasks_are_quick();
  board.add({make(1)});
  const auto other = board.next({});
  board.add({make(2), make(3), make_dangerous(4), make_dangerous(5)});
  EXPECT_EQ(board.load().queued, 1U);
  EXPECT_EQ(board.room().places, 0U);

  EXPECT_EQ(next_now(), nullptr) << "another one still runs";
  board.returned(other, {});
  EXPECT_EQ(next_now(), nullptr) << "others are leased, and would count a crash";
  EXPECT_EQ(settle_all(), 4U);
  const auto dangerous = next_now();
  ASSERT_NE(dangerous, nullptr);
  EXPECT_EQ(dangerous->task.key.id, TaskId{4});
  EXPECT_EQ(board.room().places, 0U) << "nothing is leased beside it";
  board.returned(dangerous, {});
  settle_all();
  EXPECT_EQ(board.room().places, concurrency) << "there may be more, so nothing is leased ahead";
  board.add({make(6)});
  EXPECT_GT(board.room().places, concurrency) << "there are none";
}

TEST_F(TaskBoardTest, ADangerousTaskHoldsTheOthersUpForSecondsOnly) {
  board.add({make_dangerous(1)});
  const auto dangerous = next_now();
  ASSERT_NE(dangerous, nullptr);
  const auto alarms = board.ring(*dangerous->started_at, fail);
  EXPECT_EQ(alarms.next, *dangerous->started_at + TaskBoard::longest_alone);
  EXPECT_EQ(board.room().places, 0U);
  board.ring(alarms.next, fail);
  EXPECT_EQ(board.room().places, concurrency - 1);
  board.add({make(2, true)});
  EXPECT_NE(next_now(), nullptr) << "beside it";
  board.add({make_dangerous(3)});
  EXPECT_EQ(next_now(), nullptr) << "the next one would begin alone, too";
}

TEST_F(TaskBoardTest, WhatComesWhileADangerousTaskIsAloneIsGivenBack) {
  board.add({make_dangerous(1)});
  board.add({make(2), make_dangerous(3)});  // of a lease that was under way
  EXPECT_EQ(board.load().queued, 1U);
  EXPECT_EQ(settle_all(), 2U);
  const auto dangerous = next_now();
  ASSERT_NE(dangerous, nullptr);
  EXPECT_EQ(dangerous->task.key.id, TaskId{1});
}

TEST_F(TaskBoardTest, OneMoreCrashThanAllowedIsDangerous) {
  TaskBoard careful{kinds, concurrency, prefetch, 0, 2};
  careful.add({make_suspect(1, 1)});
  EXPECT_EQ(careful.room().places, 0U) << "dead after the next one, and others with it";
  TaskBoard careless{kinds, concurrency, prefetch, 0, 4};
  careless.add({make_suspect(1, 1)});
  EXPECT_GT(careless.room().places, 0U);
}

// Its release may take long, for instance because somebody has locked its row.
TEST_F(TaskBoardTest, ADangerousTaskThatIsGivenBackHoldsNobodyUp) {
  board.add({make(1), make(2), make(3), make(4)});
  for (int i = 0; i < 4; ++i) board.next({});
  board.add({make_dangerous(5)});
  EXPECT_EQ(board.room().places, 0U);
  board.ring(Clock::now() + 2s, fail);
  EXPECT_EQ(board.load().settling, 1U) << "given back, because no thread is free";
  TaskBoard fresh{kinds, concurrency, prefetch};
  fresh.add({make_dangerous(6)});
  fresh.close();
  EXPECT_EQ(fresh.load().settling, 1U);
  EXPECT_EQ(fresh.room().places, concurrency - 1);
}

TEST_F(TaskBoardTest, ADangerousTaskDoesNotWaitForeverToBeAlone) {
  board.add({make(1)});
  const auto slow = board.next({});
  board.add({make_dangerous(2)});
  EXPECT_EQ(next_now(), nullptr);
  board.ring(Clock::now() + 2s, fail);
  EXPECT_NE(next_now(), nullptr);
}

TEST_F(TaskBoardTest, AfterTheLossOfADangerousTaskOthersAreLeased) {
  const auto dangerous = make_dangerous(1);
  board.add({dangerous});
  EXPECT_EQ(board.room().places, 0U);
  EXPECT_TRUE(board.lose(*dangerous));
  EXPECT_EQ(board.room().places, concurrency);
}

TEST_F(TaskBoardTest, ALeaseWhoseRowSomebodyHasLockedIsNotLost) {
  board.add({make(1), make(2)});
  board.next({});
  board.next({});
  const auto runs = board.begin_renewal(Clock::now());
  ASSERT_EQ(runs.size(), 2U);
  const LeaseWrites::Renewal renewal{{WriteResult::undecided, WriteResult::stale}, {}};
  EXPECT_EQ(board.end_renewal(runs, &renewal), std::vector{runs[1]});
  EXPECT_EQ(board.begin_renewal(Clock::now()).size(), 2U) << "it is tried again";
}

TEST_F(TaskBoardTest, OnlyTasksThatCouldBeLeasedAreHeardOf) {
  LookPace pace{20ms, 1s};
  board.announce({.added = {{"other", 7}}});
  EXPECT_EQ(board.wait_to_look({}, 1ms, pace), LookPace::Reason::pause);
  board.announce({.added = {{"other", 7}, {"t", 1}}});
  EXPECT_EQ(board.wait_to_look({}, 1h, pace), LookPace::Reason::news);
  EXPECT_TRUE(board.wait_for_room({}));
  EXPECT_EQ(board.wait_to_look({}, 1ms, pace), LookPace::Reason::pause)
      << "the look has answered it";
  board.announce({});
  EXPECT_EQ(board.wait_to_look({}, 1h, pace), LookPace::Reason::news) << "they may be of any type";
}

TEST_F(TaskBoardTest, TasksOfATypeAtItsLimitAreHeardOfWhenOneHasEnded) {
  const std::vector<TaskKind> limited{{"t", [](Task&) {}, {.limit = 1}, Keep::yes}};
  TaskBoard narrow{limited, concurrency, 0};
  narrow.add({make(1)});
  LookPace pace{20ms, 1s};
  narrow.announce({.added = {{"t", 1}}});
  EXPECT_EQ(narrow.wait_to_look({}, 1ms, pace), LookPace::Reason::pause);
  narrow.returned(narrow.next({}), {});
  narrow.settled(narrow.take_outcomes({}));
  EXPECT_EQ(narrow.wait_to_look({}, 1h, pace), LookPace::Reason::pause) << "at once";
}

// In a fleet, others have taken most of them by now.
TEST_F(TaskBoardTest, TasksThatAreAnnouncedOneByOneDoNotShortenTheWait) {
  LookPace pace{20ms, 1s};
  pace.adapt(100'000, true);
  for (int i = 0; i < 100; ++i) {
    pace.looked(LookPace::Reason::news, LookPace::Found::nothing, LookPace::Clock::now());
  }
  std::stop_source stop;
  std::atomic<bool> looks{false};
  board.announce({.added = {{"t", 1}}});
  std::jthread leaser([&] {
    board.wait_to_look(stop.get_token(), 24h, pace);
    looks = true;
  });
  for (int i = 0; i < 200'000; ++i) board.announce({.added = {{"t", 1}}});
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(looks) << "a random part of an hour, and not a 200,000th of that";
  stop.request_stop();
}

TEST_F(TaskBoardTest, ALookWaitsForItsPaceAndManyTasksShortenIt) {
  LookPace pace{20ms, 1s};
  pace.adapt(1'000'000, true);
  for (int i = 0; i < 100; ++i) {
    pace.looked(LookPace::Reason::news, LookPace::Found::nothing, LookPace::Clock::now());
  }
  std::atomic<bool> looks{false};
  board.announce({.added = {{"t", 1}}});
  std::jthread leaser([&] {
    board.wait_to_look({}, 24h, pace);
    looks = true;
  });
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(looks) << "a random part of eleven hours";
  board.announce({.added = {{"t", 1'000'000'000}}});
  leaser.join();
}

// The store is away, and handlers are quick: their results must not fill the memory.
TEST_F(TaskBoardTest, NothingIsStartedWhileResultsPileUp) {
  constexpr std::size_t prefetch_bytes = 1024;
  TaskBoard small{kinds, concurrency, prefetch, prefetch_bytes};
  small.add({make(1), make(2)});
  const auto run = small.next({});
  small.returned(run, {.text = std::string(17 * 1024 * 1024, 'x')});
  EXPECT_EQ(small.room().places, 0U);
  std::stop_source no_wait;
  no_wait.request_stop();
  EXPECT_EQ(small.next(no_wait.get_token()), nullptr);
  std::jthread settling([&] { small.settled(small.take_outcomes({})); });
  EXPECT_EQ(small.next({})->task.key.id.value, 2) << "it goes on once they are written";
  EXPECT_GT(small.room().places, 0U);
}

TEST_F(TaskBoardTest, AnOutcomeThatIsReplacedMakesRoomForOthers) {
  constexpr std::size_t prefetch_bytes = 1024;
  TaskBoard small{kinds, concurrency, prefetch, prefetch_bytes};
  small.add({make(1), make(2)});
  const auto run = small.next({});
  small.returned(run, {.text = std::string(17 * 1024 * 1024, 'x')});
  const auto taken = small.take_outcomes({});
  small.replace_outcome(*run, {.kind = TaskOutcome::Kind::fail, .text = "too large"});
  EXPECT_FALSE(run->perhaps_completed);
  ASSERT_GT(small.room().places, 0U);
  EXPECT_EQ(small.next({})->task.key.id.value, 2);
  small.settled(taken);
  EXPECT_GT(small.room().places, 0U) << "each byte was counted once";
}

TEST_F(TaskBoardTest, WhatIsSettledIsNotPutBack) {
  board.add({make(1), make(2)});
  board.returned(board.next({}), {});
  board.returned(board.next({}), {});
  const auto runs = board.take_outcomes({});
  board.settled({runs.data(), 1});
  board.put_back(runs);
  EXPECT_EQ(board.take_outcomes({}), std::vector{runs[1]});
}

TEST_F(TaskBoardTest, WhatWasPutBackWaitsForItsTimeAndFreshOutcomesDoNotWaitForIt) {
  board.add({make(1), make(2), make(3)});
  std::vector<TaskRunPtr> runs;
  for (int i = 0; i < 3; ++i) runs.push_back(board.next({}));
  board.returned(runs[0], {});
  board.returned(runs[1], {});
  const auto taken = board.take_outcomes({});
  ASSERT_EQ(taken.size(), 2U);
  taken[0]->retry_at = Clock::now() + 1h;
  taken[1]->retry_at = Clock::now() + 10ms;
  board.put_back(taken);
  EXPECT_EQ(board.take_outcomes({}), std::vector{runs[1]});
  board.returned(runs[2], {});
  EXPECT_EQ(board.take_outcomes({}), std::vector{runs[2]});
}

TEST_F(TaskBoardTest, ProgressThatCouldNotBeWrittenWaitsForItsTime) {
  board.add({make(1)});
  const auto run = board.next({});
  EXPECT_TRUE(board.keep_progress(run, "1"));
  auto unsaved = board.take_unsaved();
  ASSERT_EQ(unsaved.size(), 1U);
  run->retry_at = Clock::now() + 1h;
  board.saved(std::move(unsaved.front()), TaskBoard::Saved::not_yet);
  EXPECT_TRUE(board.take_unsaved().empty());
  EXPECT_TRUE(board.keep_progress(run, "2"));
  EXPECT_TRUE(board.take_unsaved().empty()) << "newer progress is in its place";
  run->retry_at = {};
  EXPECT_TRUE(board.take_outcomes({}).empty()) << "there is progress to be written";
  unsaved = board.take_unsaved();
  ASSERT_EQ(unsaved.size(), 1U);
  EXPECT_EQ(unsaved.front().progress, "2");
}

TEST_F(TaskBoardTest, WhatIsGivenBackNeedsNoPayload) {
  LeasedTask large = task(1);
  large.payload = std::string(1'000, 'x');
  const auto run = make(std::move(large));
  board.add({run});
  board.close();
  EXPECT_TRUE(run->task.payload.empty());
}

TEST_F(TaskBoardTest, WhatOthersHaveIsNotStarted) {
  board.add({make(1)});
  const auto due = board.begin_renewal(Clock::now());
  const LeaseWrites::Renewal stale{.each = {WriteResult::stale}, .valid_until = {}};
  EXPECT_TRUE(board.end_renewal(due, &stale).empty()) << "no handler has to be told";
  EXPECT_EQ(next_now(), nullptr);
  const auto alarms = board.ring(Clock::now(), fail);
  ASSERT_EQ(alarms.due.size(), 1U);
  EXPECT_EQ(alarms.due.front().reason, StopReason::lease_lost);
}

TEST_F(TaskBoardTest, HandingOverWaitsForProgressThatIsBeingWritten) {
  board.add({make(1)});
  const auto run = board.next({});
  EXPECT_TRUE(board.keep_progress(run, "1"));
  EXPECT_TRUE(board.take_outcomes({}).empty()) << "there is only progress to be written";
  auto unsaved = board.take_unsaved();
  ASSERT_EQ(unsaved.size(), 1U);
  EXPECT_TRUE(board.has_unsaved(*run)) << "it is being written";
  std::atomic<bool> handed_over{false};
  std::jthread handler([&] {
    EXPECT_TRUE(board.hand_over(*run));
    handed_over = true;
  });
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(handed_over);
  board.saved(std::move(unsaved.front()), TaskBoard::Saved::not_yet);
  handler.join();
  EXPECT_TRUE(board.take_unsaved().empty()) << "the handler's transaction has locked the row";
  EXPECT_FALSE(board.keep_progress(run, "2"));
}

TEST_F(TaskBoardTest, WhatIsHandedOverIsNotRenewedAndHandingOverWaitsForARenewal) {
  board.add({make(1)});
  const auto run = board.next({});
  const auto renewing = board.begin_renewal(Clock::now());
  ASSERT_EQ(renewing.size(), 1U);
  std::atomic<bool> handed_over{false};
  std::jthread handler([&] {
    EXPECT_TRUE(board.hand_over(*run));
    handed_over = true;
  });
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(handed_over) << "the statement that renews it is under way";
  board.end_renewal(renewing, nullptr);
  handler.join();
  EXPECT_TRUE(board.begin_renewal(Clock::now()).empty());
  EXPECT_EQ(board.returned(run, {}), TaskBoard::Return::completed);
}

TEST_F(TaskBoardTest, NothingCountsAfterALoss) {
  board.add({make(1), make(2)});
  const auto run = board.next({});
  EXPECT_TRUE(board.lose(*run));
  EXPECT_FALSE(board.lose(*run)) << "once";
  EXPECT_EQ(board.stage(*run), LeaseStage::ended);
  EXPECT_FALSE(board.hand_over(*run));
  EXPECT_EQ(board.returned(run, {}), TaskBoard::Return::refused);
  EXPECT_EQ(board.load().settling, 0U);
}

TEST_F(TaskBoardTest, TheEndOfTrustIsALossAlsoOfWhatWasNotStarted) {
  board.add({make(1), make(2)});
  const auto run = board.next({});
  const auto alarms = board.ring(Clock::now() + 2h, fail);
  EXPECT_EQ(alarms.due.size(), 2U);
  for (const auto& alarm : alarms.due) EXPECT_EQ(alarm.reason, StopReason::lease_lost);
  EXPECT_EQ(board.load().queued, 0U);
  EXPECT_EQ(board.returned(run, {}), TaskBoard::Return::refused);
}

}  // namespace
}  // namespace leasehold
