// When workers look for tasks, alone and in a fleet. Without any server, and with a clock of its
// own.
#include "tasks/runtime/look_pace.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <queue>
#include <vector>

namespace leasehold {
namespace {

using namespace std::chrono_literals;
using Clock = LookPace::Clock;
using Found = LookPace::Found;
using Reason = LookPace::Reason;

constexpr Clock::time_point start{1h};

TEST(LookPaceTest, AWorkerThatFindsWhatWasAnnouncedLooksAtOnce) {
  LookPace pace{20ms, 1s};
  EXPECT_EQ(pace.heard(start), 0us);
  pace.looked(Reason::news, Found::something, start);
  EXPECT_EQ(pace.heard(start), 0us);
}

TEST(LookPaceTest, LooksForNothingSlowItDownAndFindsSpeedItUp) {
  LookPace pace{20ms, 1s};
  pace.adapt(1'000, true);
  std::chrono::microseconds before{0};
  for (int i = 0; i < 10; ++i) {
    pace.looked(Reason::news, Found::nothing, start);
    EXPECT_EQ(pace.heard(start), i == 0 ? 1ms : before * 2);
    before = pace.heard(start);
  }
  for (int i = 0; i < 10; ++i) pace.looked(Reason::news, Found::something, start);
  EXPECT_EQ(pace.heard(start), 0us) << "below 1 ms";
}

TEST(LookPaceTest, APauseTellsNothingAboutAnnouncements) {
  LookPace pace{20ms, 1s};
  for (int i = 0; i < 10; ++i) pace.looked(Reason::pause, Found::nothing, start);
  EXPECT_EQ(pace.heard(start), 0us);
}

TEST(LookPaceTest, TheWaitIsBoundedByTheSizeOfTheFleet) {
  for (const int fleet : {1, 100}) {
    LookPace pace{20ms, 1s};
    pace.adapt(std::size_t(fleet), true);
    for (int i = 0; i < 100; ++i) pace.looked(Reason::news, Found::nothing, start);
    EXPECT_EQ(pace.heard(start), 40ms * fleet);
  }
}

TEST(LookPaceTest, AfterAQuietTimeAnAnnouncementIsAnsweredQuickly) {
  LookPace pace{20ms, 1s};
  pace.adapt(5, true);
  for (int i = 0; i < 100; ++i) pace.looked(Reason::news, Found::nothing, start);
  EXPECT_EQ(pace.heard(start + 400ms), 200ms);
  EXPECT_EQ(pace.heard(start + 800ms), 200ms);
  EXPECT_EQ(pace.heard(start + 1201ms), 4ms) << "1 ms for each of the others";
}

/// Returns the pauses after `looks` looks for nothing.
std::vector<std::chrono::milliseconds> pauses(LookPace& pace, int looks) {
  std::vector<std::chrono::milliseconds> all;
  for (int i = 0; i < looks; ++i) {
    pace.looked(Reason::pause, Found::nothing, start);
    all.push_back(pace.pause());
  }
  return all;
}

TEST(LookPaceTest, PausesGrowFromPollMinToPollMax) {
  LookPace pace{20ms, 1s};
  for (int round = 0; round < 2; ++round) {
    const auto all = pauses(pace, 20);
    EXPECT_GE(all[0], 10ms);
    EXPECT_LE(all[0], 20ms);
    EXPECT_LE(all[1], 40ms);
    EXPECT_GE(all[10], 500ms);
    EXPECT_LE(all[19], 1s);
    pace.looked(Reason::pause, Found::something, start);
    EXPECT_LE(pace.pause(), 20ms);
  }
}

TEST(LookPaceTest, InALargeFleetThatListensPausesAreLonger) {
  LookPace pace{20ms, 1s};
  pace.adapt(1'000, true);
  EXPECT_GE(pauses(pace, 20).back(), 20s);
  pace.looked(Reason::pause, Found::something, start);
  EXPECT_GE(pace.pause(), 10s) << "one find does not cost a dozen looks";
  pace.adapt(1'000, false);
  EXPECT_LE(pace.pause(), 1s) << "nothing is announced";
  pace.adapt(25, true);
  EXPECT_LE(pace.pause(), 1s) << "few enough for poll_max";
}

/// A fleet of idle workers, and tasks that are announced to all of them.
class Fleet {
 public:
  explicit Fleet(std::size_t size) : workers_(size, Worker{LookPace{20ms, 1s}}) {
    for (Worker& worker : workers_) worker.pace.adapt(size, true);
  }

  void add_task(Clock::time_point now) {
    advance(now);
    tasks_.push_back(now);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (now < workers_[i].deaf_until) continue;
      ++heard;
      workers_[i].deaf_until = now + workers_[i].pace.time_to_rest();
      if (workers_[i].reason == Reason::news) continue;
      const auto wait = workers_[i].pace.heard(now) * random_share();
      look_later(i, Reason::news, now + std::chrono::duration_cast<Clock::duration>(wait));
    }
  }
  void advance(Clock::time_point now) {
    while (!due_.empty() && due_.top().first <= now) {
      const auto [when, i] = due_.top();
      due_.pop();
      if (when == workers_[i].due) look(i, when);
    }
  }

  void forget() {
    looks = 0;
    found = 0;
    heard = 0;
    waited = 0ms;
  }

  std::size_t looks = 0;
  std::size_t found = 0;
  std::size_t heard = 0;  // announcements, by all workers together
  Clock::duration waited{0};

 private:
  struct Worker {
    LookPace pace;
    Clock::time_point due{};  // when it looks
    Reason reason = Reason::pause;
    Clock::time_point deaf_until{};
  };
  void look_later(std::size_t i, Reason reason, Clock::time_point when) {
    workers_[i].reason = reason;
    workers_[i].due = when;
    due_.push({when, i});
  }
  void look(std::size_t i, Clock::time_point now) {
    Worker& worker = workers_[i];
    ++looks;
    worker.pace.looked(worker.reason, tasks_.empty() ? Found::nothing : Found::something, now);
    look_later(i, Reason::pause, now + worker.pace.pause());
    if (tasks_.empty()) return;
    ++found;
    waited += now - tasks_.front();
    tasks_.pop_front();
  }

  using Due = std::pair<Clock::time_point, std::size_t>;
  std::vector<Worker> workers_;
  std::deque<Clock::time_point> tasks_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
};

TEST(LookPaceTest, AFleetOfAnySizeLooksAFewTimesPerTask) {
  for (const std::size_t size : {1U, 10U, 1'000U}) {
    Fleet fleet{size};
    constexpr auto between = 20ms;  // 50 tasks a second
    auto now = start;
    for (int i = 0; i < 2'000; ++i) fleet.add_task(now += between);  // learns
    fleet.forget();
    for (int i = 0; i < 3'000; ++i) fleet.add_task(now += between);
    const double tasks = double(fleet.found);
    EXPECT_GT(fleet.found, 2'900U) << size;
    EXPECT_LT(double(fleet.looks) / tasks, 3.5) << size;
    EXPECT_LT(fleet.waited / fleet.found, 50ms) << size;
    EXPECT_LT(double(fleet.heard) / tasks, 50) << size << ": most of them rest";
  }
}

TEST(LookPaceTest, OnlyAWorkerWhoseLooksAreRareRestsFromTheNews) {
  LookPace pace{20ms, 1s};
  pace.adapt(500, true);
  pace.looked(Reason::news, Found::nothing, start);
  EXPECT_EQ(pace.time_to_rest(), 0ms);
  for (int i = 0; i < 20; ++i) pace.looked(Reason::news, Found::nothing, start);
  EXPECT_GE(pace.time_to_rest(), 2500ms);
  EXPECT_LE(pace.time_to_rest(), 5s) << "so that it hears of a burst";
  for (int i = 0; i < 20; ++i) pace.looked(Reason::news, Found::something, start);
  EXPECT_EQ(pace.time_to_rest(), 0ms);
}

TEST(LookPaceTest, WhatWasLearnedInALargerFleetIsForgotten) {
  LookPace pace{20ms, 1s};
  pace.adapt(500, true);
  for (int i = 0; i < 20; ++i) pace.looked(Reason::news, Found::nothing, start);
  pace.adapt(1, true);
  EXPECT_EQ(pace.time_to_rest(), 0ms);
  EXPECT_LE(pace.heard(start), 40ms);
}

TEST(LookPaceTest, AnIdleFleetCostsAFewLooksASecond) {
  Fleet fleet{1'000};
  auto now = start;
  for (int i = 0; i < 100; ++i) fleet.add_task(now += 5s);  // learns
  fleet.forget();
  for (int i = 0; i < 100; ++i) fleet.add_task(now += 5s);
  EXPECT_LT(fleet.looks, 500U * 50U);
  EXPECT_LT(fleet.waited / fleet.found, 200ms);
}

}  // namespace
}  // namespace leasehold
