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
  static TaskRunPtr make(std::int64_t id, int crashes = 0) {
    return std::make_shared<TaskRun>(
        LeasedTask{.key = {TaskId{id}, TaskVersion{1}}, .type = "t", .crash_count = crashes},
        kinds.front(), 0, Clock::now() + 1h);
  }
  static std::vector<TaskRunPtr> make_many(int number, int crashes = 0) {
    std::vector<TaskRunPtr> runs;
    for (int i = 0; i < number; ++i) runs.push_back(make(i, crashes));
    return runs;
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

TEST_F(TaskBoardTest, WithASuspectNothingIsLeasedAhead) {
  learn_that_tasks_are_quick();
  board.add(make_many(50, 1));
  EXPECT_EQ(board.load().queued, concurrency) << "a crash takes no more than that along";
  EXPECT_EQ(settle_all(), 50 - concurrency) << "the others are given back";
  for (std::size_t i = 0; i < concurrency; ++i) board.returned(board.next({}), {});
  settle_all();
  EXPECT_EQ(board.room().places, concurrency) << "there may be more of them";
  board.add({make(1)});
  EXPECT_GT(board.room().places, concurrency) << "there are none";
}

TEST_F(TaskBoardTest, ADangerousTaskIsRunAlone) {
  learn_that_tasks_are_quick();
  board.add({make(1)});
  const auto other = board.next({});
  board.add({make(2), make(3), make(4, 2), make(5, 2)});
  EXPECT_EQ(board.load().queued, 1U);
  EXPECT_EQ(settle_all(), 3U);
  EXPECT_EQ(board.room().places, 0U);

  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(board.next(stop.get_token()), nullptr) << "another one still runs";
  board.returned(other, {});
  const auto dangerous = board.next(stop.get_token());
  ASSERT_NE(dangerous, nullptr);
  EXPECT_EQ(dangerous->task.crash_count, 2);
  EXPECT_EQ(board.room().places, 0U) << "nothing is leased while it runs";
  board.returned(dangerous, {});
  settle_all();
  EXPECT_EQ(board.room().places, 1U) << "the next may be dangerous too";
  board.add({make(6)});
  EXPECT_GT(board.room().places, concurrency) << "it is not";
}

TEST_F(TaskBoardTest, ADangerousTaskDoesNotWaitForEverToBeAlone) {
  board.add({make(1)});
  const auto slow = board.next({});
  board.add({make(2, 2)});
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(board.next(stop.get_token()), nullptr);
  board.ring(Clock::now() + 2s, fail);
  EXPECT_NE(board.next(stop.get_token()), nullptr);
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
