#include "support/combiner.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.hpp"
#include "tests/support/starvation.hpp"

namespace leasehold {
namespace {

using testing::eventually;

struct Number {
  int asked = 0;
  int answer = 0;
};

bool always(std::span<Number* const>, const Number&) { return true; }

// For those who wait for a call however long it takes.
constexpr std::chrono::hours patient{1};

/// Lets the first call wait until it is told to go on, and keeps the size of each call.
class Gate {
 public:
  void pass(std::size_t size) {
    const std::lock_guard guard(mutex_);
    sizes_.push_back(size);
    if (sizes_.size() == 1) opened_.get_future().wait();
  }
  void open() { opened_.set_value(); }
  std::vector<std::size_t> sizes() const { return sizes_; }

 private:
  std::mutex mutex_;
  std::promise<void> opened_;
  std::vector<std::size_t> sizes_;
};

TEST(Combiner, OneCallerCallsAtOnceAndAlone) {
  Combiner<Number> combiner(1, always, [](auto numbers) {
    EXPECT_EQ(numbers.size(), 1u);
    numbers.front()->answer = numbers.front()->asked + 1;
  });
  Number number{.asked = 41};
  combiner.submit(number);
  EXPECT_EQ(number.answer, 42);
}

TEST(Combiner, ThoseWhoComeMeanwhileGoTogether) {
  Gate gate;
  std::atomic<int> looked_at{0};
  Combiner<Number> combiner(
      1, always,
      [&](auto numbers) {
        ++looked_at;
        gate.pass(numbers.size());
        for (Number* number : numbers) number->answer = -number->asked;
      },
      patient);
  Number numbers[6];
  std::vector<std::jthread> threads;
  const auto submit = [&](int i) {
    numbers[i].asked = i;
    threads.emplace_back([&, i] { combiner.submit(numbers[i]); });
  };
  submit(0);
  ASSERT_TRUE(eventually([&] { return looked_at == 1; }));
  for (int i = 1; i < 6; ++i) submit(i);
  ASSERT_TRUE(eventually([&] { return combiner.waiting() == 5; }));
  gate.open();
  threads.clear();
  EXPECT_EQ(gate.sizes(), (std::vector<std::size_t>{1, 5}));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(numbers[i].answer, -i);
}

TEST(Combiner, ThoseWhoComeBackTogetherGoTogether) {
  const auto scenario = [] {
    std::atomic<int> calls{0};
    std::vector<std::size_t> sizes;
    Combiner<Number> combiner(
        1, always,
        [&](auto numbers) {
          sizes.push_back(numbers.size());
          // Long: the moments until they are back are little beside it.
          if (++calls < 3) std::this_thread::sleep_for(std::chrono::seconds{1});
        },
        patient);
    const auto come_back = [&](int times, std::chrono::milliseconds after) {
      Number number;
      for (int i = 0; i < times; ++i) {
        combiner.submit(number);
        std::this_thread::sleep_for(after);
      }
    };
    std::jthread first(come_back, 3, std::chrono::milliseconds{0});
    ASSERT_TRUE(eventually([&] { return calls == 1; }));
    std::jthread second(come_back, 2, std::chrono::milliseconds{5});
    std::jthread third(come_back, 2, std::chrono::milliseconds{10});
    for (auto* thread : {&first, &second, &third}) thread->join();
    EXPECT_EQ(sizes, (std::vector<std::size_t>{1, 3, 3}));
  };
  const auto watch = [] { return testing::StallWatch(std::chrono::milliseconds{30}); };
  testing::repeat_if_starved(watch, scenario);
}

TEST(Combiner, ACallThatHangsDoesNotHoldUpTheOthers) {
  std::atomic<int> calls{0};
  std::promise<void> end_of_first;
  Combiner<Number> combiner(1, always, [&](auto numbers) {
    const bool hangs = ++calls == 1;
    if (hangs) end_of_first.get_future().wait();
    for (Number* number : numbers) number->answer = number->asked;
  });
  Number hanging{.asked = 1};
  std::jthread first([&] { combiner.submit(hanging); });
  ASSERT_TRUE(eventually([&] { return calls == 1; }));
  for (int i = 2; i < 5; ++i) {
    Number number{.asked = i};
    combiner.submit(number);
    EXPECT_EQ(number.answer, i);
  }
  end_of_first.set_value();
  first.join();
  EXPECT_EQ(hanging.answer, 1);
  EXPECT_EQ(combiner.waiting(), 0u);
}

TEST(Combiner, WhoMayNotJoinGoesLater) {
  Gate gate;
  std::atomic<int> calls{0};
  const auto same_parity = [](std::span<Number* const> chosen, const Number& next) {
    return chosen.front()->asked % 2 == next.asked % 2;
  };
  Combiner<Number> combiner(
      1, same_parity,
      [&](auto numbers) {
        ++calls;
        gate.pass(numbers.size());
        for (Number* number : numbers) {
          EXPECT_EQ(number->asked % 2, numbers.front()->asked % 2);
          number->answer = number->asked;
        }
      },
      patient);
  Number numbers[7];
  std::vector<std::jthread> threads;
  for (int i = 0; i < 7; ++i) {
    numbers[i].asked = i;
    threads.emplace_back([&, i] { combiner.submit(numbers[i]); });
    ASSERT_TRUE(eventually([&] { return calls == 1 && combiner.waiting() == std::size_t(i); }));
  }
  gate.open();
  threads.clear();
  EXPECT_EQ(gate.sizes(), (std::vector<std::size_t>{1, 3, 3}));
  for (int i = 0; i < 7; ++i) EXPECT_EQ(numbers[i].answer, i);
}

TEST(Combiner, AnErrorReachesAllWhoWereInTheCall) {
  Gate gate;
  std::atomic<int> calls{0};
  Combiner<Number> combiner(
      1, always,
      [&](auto numbers) {
        ++calls;
        gate.pass(numbers.size());
        throw OutcomeUnknown("lost");
      },
      patient);
  Number numbers[4];
  std::atomic<int> told{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      try {
        combiner.submit(numbers[i]);
      } catch (const OutcomeUnknown&) {
        ++told;
      }
    });
    ASSERT_TRUE(eventually([&] { return calls == 1 && combiner.waiting() == std::size_t(i); }));
  }
  gate.open();
  threads.clear();
  EXPECT_EQ(told, 4);
  EXPECT_EQ(gate.sizes(), (std::vector<std::size_t>{1, 3}));
}

TEST(Combiner, WhatIsRefusedForOneDoesNotHitTheOthers) {
  Gate gate;
  std::atomic<int> calls{0};
  Combiner<Number> combiner(
      1, always,
      [&](auto numbers) {
        ++calls;
        gate.pass(numbers.size());
        for (Number* number : numbers) {
          if (number->asked == 2) throw ServerRefused(ServerRefused::Reason::other, "not this one");
        }
        for (Number* number : numbers) number->answer = number->asked;
      },
      patient);
  Number numbers[5];
  std::atomic<int> refused{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 5; ++i) {
    numbers[i].asked = i;
    threads.emplace_back([&, i] {
      try {
        combiner.submit(numbers[i]);
      } catch (const ServerRefused&) {
        EXPECT_EQ(i, 2);
        ++refused;
      }
    });
    ASSERT_TRUE(eventually([&] { return calls == 1 && combiner.waiting() == std::size_t(i); }));
  }
  gate.open();
  threads.clear();
  EXPECT_EQ(refused, 1);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(numbers[i].answer, i == 2 ? 0 : i);
}

TEST(Combiner, AnErrorWhileCompanionsAreChosenConcernsOnlyTheirLeader) {
  std::atomic<int> calls{0};
  std::promise<void> end_of_first;
  std::atomic<int> asked{0};
  Combiner<Number> combiner(
      1,
      [&](auto, const Number&) {
        if (++asked == 2) throw std::bad_alloc{};  // the first companion is chosen already
        return true;
      },
      [&](auto numbers) {
        if (++calls == 1) end_of_first.get_future().wait();
        for (Number* number : numbers) number->answer = number->asked;
      },
      patient);
  Number numbers[5];
  std::atomic<int> failed{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 5; ++i) {
    numbers[i].asked = i + 1;
    threads.emplace_back([&, i] {
      try {
        combiner.submit(numbers[i]);
      } catch (const std::bad_alloc&) {
        EXPECT_EQ(i, 1) << "the leader of the second call";
        ++failed;
      }
    });
    ASSERT_TRUE(eventually([&] { return calls == 1 && combiner.waiting() == std::size_t(i); }));
  }
  end_of_first.set_value();
  threads.clear();
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(combiner.waiting(), 0U);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(numbers[i].answer, i == 1 ? 0 : i + 1);
}

TEST(Combiner, ManyThreadsEachGetTheirOwnAnswer) {
  constexpr int threads_number = 8;
  constexpr int rounds = 2'000;
  std::atomic<int> under_way{0};
  std::atomic<int> most{0};
  Combiner<Number> combiner(
      2, always,
      [&](auto numbers) {
        const int now = ++under_way;
        int seen = most;
        while (seen < now && !most.compare_exchange_weak(seen, now)) {
        }
        for (Number* number : numbers) number->answer = number->asked * 2;
        --under_way;
      },
      patient);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < threads_number; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < rounds; ++i) {
          Number number{.asked = t * rounds + i};
          combiner.submit(number);
          ASSERT_EQ(number.answer, number.asked * 2);
        }
      });
    }
  }
  EXPECT_LE(most, 2);
  EXPECT_EQ(combiner.waiting(), 0u);
}

}  // namespace
}  // namespace leasehold
