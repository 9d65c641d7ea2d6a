#include "support/combiner.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.hpp"

namespace leasehold {
namespace {

using testing::eventually;

struct Number {
  int asked = 0;
  int answer = 0;
};

bool always(std::span<Number* const>, const Number&) { return true; }

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
  Combiner<Number> combiner(1, always, [&](auto numbers) {
    ++looked_at;
    gate.pass(numbers.size());
    for (Number* number : numbers) number->answer = -number->asked;
  });
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

TEST(Combiner, WhoMayNotJoinGoesLater) {
  Gate gate;
  std::atomic<int> calls{0};
  const auto same_parity = [](std::span<Number* const> chosen, const Number& next) {
    return chosen.front()->asked % 2 == next.asked % 2;
  };
  Combiner<Number> combiner(1, same_parity, [&](auto numbers) {
    ++calls;
    gate.pass(numbers.size());
    for (Number* number : numbers) {
      EXPECT_EQ(number->asked % 2, numbers.front()->asked % 2);
      number->answer = number->asked;
    }
  });
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
  Combiner<Number> combiner(1, always, [&](auto numbers) {
    ++calls;
    gate.pass(numbers.size());
    throw OutcomeUnknown("lost");
  });
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
  Combiner<Number> combiner(1, always, [&](auto numbers) {
    ++calls;
    gate.pass(numbers.size());
    for (Number* number : numbers) {
      if (number->asked == 2) throw ServerRefused(ServerRefused::Reason::other, "not this one");
    }
    for (Number* number : numbers) number->answer = number->asked;
  });
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

TEST(Combiner, ManyThreadsEachGetTheirOwnAnswer) {
  constexpr int threads_number = 8;
  constexpr int rounds = 2'000;
  std::atomic<int> under_way{0};
  std::atomic<int> most{0};
  Combiner<Number> combiner(2, always, [&](auto numbers) {
    const int now = ++under_way;
    int seen = most;
    while (seen < now && !most.compare_exchange_weak(seen, now)) {
    }
    for (Number* number : numbers) number->answer = number->asked * 2;
    --under_way;
  });
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
