// The waiting line: its order, its cost, and what is left when somebody leaves it.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <future>
#include <latch>
#include <map>
#include <sstream>

#include "tests/support/event_recorder.hpp"
#include "tests/support/fault_proxy.hpp"
#include "tests/support/lock_clients.hpp"
#include "tests/support/lock_store.hpp"
#include "tests/support/redis_keys.hpp"
#include "tests/support/test_namespace.hpp"
#include "tests/support/waiter.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Ids = std::vector<std::string>;
using Then = Waiter::Then;

template <class Store>
class LockLineFixture : public Store {
 public:
  void TearDown() override {
    waiters.clear();
    held.reset();
    this->store.expect_nothing_left();
    EXPECT_EQ(client.stats().waiting, 0U);
    EXPECT_EQ(others.stats().waiting, 0U);
  }

  /// By the first client, while both listen.
  Lock& hold(LockOptions options = {.ttl = 60s}) {
    options.metadata["id"] = "holder";
    options.wait = patience;
    others.acquire(name + ":listen").value().release();
    held.emplace(client.acquire(name, options).value());
    EXPECT_TRUE(this->store.all_listen(2));
    return *held;
  }

  /// A waiter of the second client, that waits for ever unless the options say how long.
  Waiter& start(const std::string& id, LockOptions options = {}, Then then = Then::hold) {
    options.metadata["id"] = id;
    if (options.wait == LockOptions{}.wait) options.wait = LockOptions::forever;
    ids.push_back(id);
    return waiters.emplace_back(others, name, options, then);
  }

  /// The same; it stands in line when this returns.
  Waiter& join(const std::string& id, LockOptions options = {}, Then then = Then::hold) {
    const auto before = line_length(client, name);
    Waiter& added = start(id, std::move(options), then);
    EXPECT_TRUE(eventually([&] { return line_length(client, name) == before + 1; }, patience));
    return added;
  }

  void start_over() {
    waiters.clear();
    held.reset();
    ids.clear();
  }

  /// Runs a scenario in which nobody may lose its place, again if the machine stood still so long
  /// that somebody had to.
  template <class Scenario>
  void repeat_if_evicted(const Scenario& scenario) {
    const auto watch = [this] { return EvictionWatch{{&client, &others}}; };
    repeat_if_starved(watch, [&] {
      start_over();
      scenario();
    });
  }

  /// Who of those that have had the lock had it when.
  Ids order_of_grants() {
    std::map<FencingToken, std::string> by_token;  // tokens grow from grant to grant
    for (std::size_t i = 0; i < waiters.size(); ++i) {
      if (waiters[i].got_it()) by_token.emplace(waiters[i].lock().token(), ids[i]);
    }
    Ids order;
    for (const auto& [token, id] : by_token) order.push_back(id);
    return order;
  }

  std::string name = name_for_test();
  std::shared_ptr<EventRecorder> events = std::make_shared<EventRecorder>();
  LockClient client{this->store.uri(), as_new_runner()};
  LockClient others{this->store.uri(), as_new_runner(events)};
  std::optional<Lock> held;
  std::deque<Waiter> waiters;
  Ids ids;  // of the waiters
};

class LockLineTest : public LockLineFixture<OnEveryLockStoreOfItsOwn> {};
ON_EVERY_STORE(LockLineTest);

/// Those that take long.
class LockLineRaceTest : public LockLineTest {
 protected:
  /// The embedded store has no messages on the way that could be overtaken: fewer will do.
  int times(int on_redis) const { return store.is_redis() ? on_redis : on_redis / 4; }
};
ON_EVERY_STORE(LockLineRaceTest);

/// What it costs Redis, and what is Redis' own.
class RedisLockLineTest : public LockLineFixture<OnARedisOfItsOwn> {
 protected:
  /// How often clients asked for a script.
  std::uint64_t scripts_run() { return calls_of("evalsha") + calls_of("eval"); }

  /// How often Redis ran a command, in a script or not, since the statistics were reset.
  std::uint64_t calls_of(const std::string& command) {
    const std::string stats = redis.command({"INFO", "commandstats"}).string;
    const std::string label = "cmdstat_" + command + ":calls=";
    const auto found = stats.find(label);
    return found == std::string::npos ? 0 : std::stoull(stats.substr(found + label.size()));
  }

  RedisEndpoint& redis = store.redis();
};

// ---- Order

TEST_P(LockLineTest, FirstComeFirstServed) {
  repeat_if_evicted([&] {
    hold();
    for (int i = 0; i < 20; ++i) join(std::to_string(i));
    held->release();
    for (Waiter& waiter : waiters) waiter.release();
    EXPECT_EQ(order_of_grants(), ids);
  });
}

TEST_P(LockLineTest, ReleaseHandsTheLockToTheNextInTheSameStep) {
  repeat_if_evicted([&] {
    hold();
    join("a");
    join("b");
    held->release();
    EXPECT_EQ(holder_of(client, name), "a");
    waiters[0].release();
    EXPECT_EQ(holder_of(client, name), "b");
    waiters[1].release();
    EXPECT_EQ(holder_of(client, name), "nobody");
  });
}

/// Steps of priority between two waiters.
struct Steps {
  int low;
  int high;
};
class OnEveryStoreWithSteps : public ::testing::TestWithParam<std::tuple<StoreKind, Steps>> {
 protected:
  LockStoreUnderTest store{std::get<0>(GetParam()), LockStoreUnderTest::Server::own};
};

class LockLinePriorityTest : public LockLineFixture<OnEveryStoreWithSteps> {
 protected:
  const int low = std::get<1>(GetParam()).low;
  const int high = std::get<1>(GetParam()).high;
  const int bound = 8 * (high - low);  // as LockOptions::priority promises
};

TEST_P(LockLinePriorityTest, WaiterOvertakesEightWhoCameEarlierForEachStepAndNotOneMore) {
  repeat_if_evicted([&] {
    hold();
    for (int i = 0; i < bound + 3; ++i) {
      join(std::to_string(i), {.priority = low}, Then::pass);
    }
    Ids expected = ids;
    expected.insert(expected.begin() + 3, "high");
    join("high", {.priority = high}, Then::pass);
    held->release();
    EXPECT_EQ(order_of_grants(), expected);
  });
}

TEST_P(LockLinePriorityTest, WaiterIsOvertakenByEightWhoCameLaterForEachStepAndNotOneMore) {
  repeat_if_evicted([&] {
    hold();
    join("low", {.priority = low}, Then::pass);
    for (int i = 0; i < bound + 3; ++i) {
      join(std::to_string(i), {.priority = high}, Then::pass);
    }
    Ids expected(ids.begin() + 1, ids.end());
    expected.insert(expected.begin() + bound, "low");
    held->release();
    EXPECT_EQ(order_of_grants(), expected);
  });
}

INSTANTIATE_TEST_SUITE_P(
    , LockLinePriorityTest,
    ::testing::Combine(::testing::Values(StoreKind::redis, StoreKind::sqlite_memory,
                                         StoreKind::sqlite_file),
                       ::testing::Values(Steps{0, 1}, Steps{-1, 0}, Steps{-1, 1}, Steps{97, 100})),
    [](const auto& tested) {
      return to_name(std::get<0>(tested.param)) + std::to_string(tested.index);
    });

TEST_P(LockLineTest, StreamOfHigherPrioritiesDoesNotStarveALowOne) {
  repeat_if_evicted([&] {
    constexpr std::size_t streams = 4;
    constexpr int priority = 2;
    const FencingToken first = hold().token();
    std::atomic<bool> stop{false};
    std::vector<std::jthread> stream;
    for (std::size_t i = 0; i < streams; ++i) {
      stream.emplace_back([&] {
        while (!stop) {
          others.acquire(name, {.wait = LockOptions::forever, .priority = priority}).value();
        }
      });
    }
    EXPECT_TRUE(eventually([&] { return line_length(client, name) == streams; }, patience));
    Waiter& low = join("low");
    held->release();
    const FencingToken its = low.lock().token();
    stop = true;
    low.release();
    stream.clear();
    const auto entries = events->entries();
    const auto served_before =
        std::count_if(entries.begin(), entries.end(), [&](const auto& entry) {
          return entry.type == LockEventType::acquired && entry.name == name &&
                 entry.token > first && entry.token < its;
        });
    // Those who stood there already, and those who may overtake.
    EXPECT_LE(served_before, streams + 8 * priority);
  });
}

TEST_P(LockLineTest, NewcomersDoNotGetPastTheLine) {
  repeat_if_evicted([&] {
    hold();
    const auto before = client.stats().contended;
    for (int i = 0; i < 30; ++i) join(std::to_string(i), {}, Then::pass);
    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::vector<FencingToken> newcomers;
    std::vector<std::jthread> threads;
    for (const auto strategy : {OnConflict::fail_fast, OnConflict::retry, OnConflict::wait}) {
      threads.emplace_back([&, strategy] {
        while (!stop) {
          auto lock =
              client.acquire(name, {.wait = strategy == OnConflict::wait ? 1ms : 1'000ms,
                                    .on_conflict = strategy,
                                    .retry = {.retries = 50, .first = 1ms, .longest = 1ms}});
          const std::lock_guard guard(mutex);
          if (lock) newcomers.push_back(lock.value().token());
        }
      });
    }
    EXPECT_TRUE(eventually([&] { return client.stats().contended > before + 10; }, patience));
    held->release();
    const Ids order = order_of_grants();
    stop = true;
    threads.clear();
    EXPECT_EQ(order, ids);
    for (const FencingToken token : newcomers) {
      EXPECT_GT(token, waiters.back().lock().token()) << "got past the line";
    }
  });
}

TEST_P(LockLineTest, BargingGoesFirst) {
  repeat_if_evicted([&] {
    hold();
    join("a", {.priority = 100}, Then::pass);
    join("b", {}, Then::pass);
    join("barging 1", {.queueing = Queueing::barging}, Then::pass);
    join("barging 2", {.queueing = Queueing::barging}, Then::pass);
    held->release();
    EXPECT_EQ(order_of_grants(), (Ids{"barging 2", "barging 1", "a", "b"}));
  });
}

// ---- Cost

// A release tries the lean script first, unless the holder has heard that somebody waits. Each of
// the two scripts looks once at what the lock's value begins with.
TEST_F(RedisLockLineTest, HolderThatHeardOfAWaiterHandsOverInOneStep) {
  LockClient other{store.uri(), as_new_runner()};
  std::uint64_t steps = 0;
  for (int round = 0; round < 100 && steps != 1; ++round) {
    Lock lock = client.acquire("awaited", {.ttl = 30s}).value();
    std::promise<void> counted;
    std::jthread waiter([&] {
      const auto got = other.acquire("awaited", {.ttl = 30s, .wait = patience});
      EXPECT_TRUE(got);
      counted.get_future().wait();
    });
    EXPECT_TRUE(eventually([&] { return client.status("awaited")->waiter_count == 1; }, patience));
    std::this_thread::sleep_for(round * 1ms);  // nobody can see when the word arrives
    const auto before = calls_of("getrange");
    EXPECT_EQ(lock.release(), Release::done);
    steps = calls_of("getrange") - before;
    EXPECT_LE(steps, 2U);
    counted.set_value();
  }
  EXPECT_EQ(steps, 1U);
}

TEST_F(RedisLockLineTest, UncontendedLockCostsTwoShortScripts) {
  client.acquire("free")->release();  // the scripts are known now, and there is a counter
  redis.command({"CONFIG", "RESETSTAT"});
  EXPECT_EQ(client.acquire("free")->release(), Release::done);
  EXPECT_EQ(scripts_run(), 2U);
  for (const auto* command : {"set", "incr", "getrange", "exists", "del"}) {
    EXPECT_EQ(calls_of(command), 1U) << command;
  }
}

TEST_F(RedisLockLineTest, ReleaseWakesExactlyOne) {
  repeat_if_evicted([&] {
    hold();
    const auto handovers = events->count(LockEventType::handover);
    for (int i = 0; i < 20; ++i) join(std::to_string(i));
    redis.command({"CONFIG", "RESETSTAT"});
    const auto started = Clock::now();
    held->release();
    waiters[0].lock();
    EXPECT_TRUE(eventually([&] { return line_length(client, name) == 19; }, patience));
    const auto scripts = scripts_run();
    const auto looks = static_cast<std::uint64_t>((Clock::now() - started) / 1s) + 2;
    EXPECT_EQ(calls_of("publish"), 1U);
    EXPECT_EQ(events->count(LockEventType::handover), handovers + 1);
    // The release, the confirmation, our questions about the line, and perhaps a look at the line
    // once a second: nobody else has stirred.
    const auto questions = calls_of("zcard");
    EXPECT_LE(scripts, 2 + questions + looks);
    for (Waiter& waiter : waiters) waiter.release();
  });
}

TEST_F(RedisLockLineTest, IdleWaitersCostRedisAFewCommandsASecondHoweverManyTheyAre) {
  hold();
  int joined = 0;
  for (const int number : {5, 150}) {
    while (joined < number) start(std::to_string(joined++), {}, Then::pass);
    ASSERT_TRUE(eventually(
        [&] { return line_length(client, name) == static_cast<std::size_t>(number); }, patience));
    const auto asked = [this] { return scripts_run() + calls_of("ping"); };
    const auto started = Clock::now();
    const auto before = asked();
    std::this_thread::sleep_for(2s);  // what is measured is the calm
    const auto cost = static_cast<double>(asked() - before);
    const auto seconds = std::chrono::duration<double>(Clock::now() - started).count();
    // A look at the line and a ping for each of the two clients, and our own pings.
    EXPECT_LE(cost, 4 * seconds + 8) << number << " waiters";
    EXPECT_GE(cost, 1) << "not even a sign of life: not counted right";
  }
  held->release();
  EXPECT_EQ(order_of_grants().size(), waiters.size());
}

TEST_F(RedisLockLineTest, KeyThatIsNotOursAndNeverExpiresIsNotPolled) {
  redis.command({"SET", key_of(name), "somebody"});
  start("a", {}, Then::pass);
  start("b", {}, Then::pass);
  ASSERT_TRUE(eventually([&] { return line_length(client, name) == 2; }, patience));
  const auto started = Clock::now();
  const auto before = scripts_run();
  std::this_thread::sleep_for(1'500ms);  // what is measured is the calm
  const auto cost = static_cast<double>(scripts_run() - before);
  const auto seconds = std::chrono::duration<double>(Clock::now() - started).count();
  EXPECT_LE(cost, 2 * seconds + 4);
  redis.command({"DEL", key_of(name)});
  // Nobody tells them; they find out within a second or so.
  EXPECT_EQ(order_of_grants().size(), 2U);
}

/// Of leases that nobody renews: the shortest time after the end of one until the next in line has
/// the lock. The shortest, because it is the machine that makes the others longer; no more than is
/// needed to get below `enough`.
template <class TestCase>
std::chrono::milliseconds shortest_delay(TestCase& test, std::chrono::milliseconds ttl,
                                         std::chrono::milliseconds enough) {
  auto shortest = std::chrono::milliseconds::max();
  for (int i = 0; i < 8 && shortest >= enough; ++i) {
    test.hold({.ttl = ttl, .heartbeat = Heartbeat::manual});
    Waiter next{test.others, test.name, {.wait = patience}};
    shortest = std::min(shortest, next.lock().took_over_from()->heartbeat_age - ttl);
  }
  return shortest;
}

TEST_P(LockLineRaceTest, EndOfALeaseIsNotSeenBySlowPollingOnly) {
  // One that ends before the line is looked after for the first time, a second after the waiter
  // came, and one that ends between two such looks.
  for (const auto ttl : {300ms, 1'300ms}) {
    const auto delay = shortest_delay(*this, ttl, 500ms);
    EXPECT_GE(delay, 0ms);
    EXPECT_LT(delay, 500ms) << ttl.count();
  }
}

// ---- Leaving the line

TEST_P(LockLineTest, CancelledWaiterLeavesAtOnce) {
  hold();
  Waiter& waiter = join("a");
  waiter.cancel();
  EXPECT_EQ(waiter.refusal().reason, RefusalReason::cancelled);
  EXPECT_EQ(line_length(client, name), 0U);
  held->release();
  store.expect_nothing_left();
}

TEST_P(LockLineTest, WaiterWhoseTimeIsUpLeavesAtOnce) {
  hold();
  Waiter& waiter = start("a", {.wait = 100ms});
  EXPECT_EQ(waiter.refusal().reason, RefusalReason::busy);
  EXPECT_EQ(waiter.refusal().holder->metadata.at("id"), "holder");
  EXPECT_EQ(line_length(client, name), 0U);
  held->release();
  store.expect_nothing_left();
}

/// The race of a grant with the end of the wait, many times. `race` releases the lock and ends the
/// wait of a waiter, and is given how much later than the release the wait should end: more after a
/// wait that ended too early, less, even before it, after one that ended too late. So however slow
/// the machine is, most attempts are close to the moment in which the one turns into the other.
template <class Race>
void race_grant_with(LockClient& client, LockClient& others, const std::string& name, int times,
                     const Race& race) {
  int granted = 0;
  int refused = 0;
  std::chrono::microseconds later{100};
  for (int i = 0; i < times; ++i) {
    Lock lock = client.acquire(name, {.on_conflict = OnConflict::fail_fast}).value();
    const bool in_time = race(lock, later);
    ++(in_time ? granted : refused);
    const auto step = std::max<std::chrono::microseconds>(std::chrono::abs(later) / 4, 20us);
    later += in_time ? -step : step;
    // Nobody has the lock now, and nobody waits: so it is to be had, at once.
    const auto after = client.acquire(name, {.on_conflict = OnConflict::fail_fast});
    ASSERT_TRUE(after) << "attempt " << i << ": a grant was not passed on";
  }
  EXPECT_EQ(others.stats().held, 0U);
  // Both have happened, or it was no race.
  EXPECT_GT(granted, 0);
  EXPECT_GT(refused, 0);
}

TEST_P(LockLineRaceTest, GrantToOneThatIsBeingCancelledIsPassedOn) {
  hold().release();
  race_grant_with(client, others, name, times(1'000),
                  [&](Lock& lock, std::chrono::microseconds later) {
                    Waiter waiter{others, name, {.wait = LockOptions::forever}};
                    while (line_length(client, name) == 0) {
                    }
                    const auto spin = [](std::chrono::microseconds time) {
                      const auto until = Clock::now() + time;
                      while (Clock::now() < until) {
                      }
                    };
                    std::latch both{2};
                    std::jthread canceller([&] {
                      both.arrive_and_wait();
                      spin(later);
                      waiter.cancel();
                    });
                    both.arrive_and_wait();
                    spin(-later);
                    lock.release();
                    canceller.join();
                    return waiter.got_it();
                  });
}

TEST_P(LockLineRaceTest, GrantToOneWhoseTimeIsUpIsPassedOn) {
  hold().release();
  race_grant_with(client, others, name, times(150),
                  [&](Lock& lock, std::chrono::microseconds later) {
                    const auto wait = 20ms;
                    const auto started = Clock::now();
                    Waiter waiter{others, name, {.wait = wait}};
                    std::this_thread::sleep_until(started + wait - later);
                    lock.release();
                    return waiter.got_it();
                  });
}

TEST_P(LockLineRaceTest, GrantThatIsPassedOnReachesTheNextAtOnce) {
  hold().release();
  const auto evicted = [this] {
    return client.stats().waiters_evicted + others.stats().waiters_evicted;
  };
  // Nobody loses its turn, unless it gets no time for most of the second that a turn lasts.
  store.repeat_if_stalled(500ms, [&] {
    const auto before = evicted();
    for (int i = 0; i < times(200); ++i) {
      Lock lock = client.acquire(name, {.on_conflict = OnConflict::fail_fast}).value();
      Waiter first{others, name, {.wait = LockOptions::forever}};
      while (line_length(client, name) == 0) {
      }
      Waiter second{others, name, {.metadata = {{"id", "second"}}, .wait = LockOptions::forever}};
      while (line_length(client, name) == 1) {
      }
      std::jthread canceller([&] { first.cancel(); });
      lock.release();
      canceller.join();
      if (first.got_it()) first.release();
      // No time has to pass: whoever let go of it has handed it on.
      ASSERT_EQ(holder_of(client, name), "second") << "attempt " << i;
      second.release();
    }
    EXPECT_EQ(evicted(), before);
  });
}

// ---- What can be seen

TEST_P(LockLineTest, StatusShowsWhoWaitsSinceWhenAndHowUrgently) {
  repeat_if_evicted([&] {
    const Lock& lock = hold();
    EXPECT_TRUE(lock.waiters().empty());
    const auto before = store.now();
    join("a");
    const auto between = store.now();
    join("b", {.priority = 3});
    const auto after = store.now();

    const LockRecord record = client.status(name).value();
    EXPECT_EQ(record.waiter_count, 2U);
    for (const auto& line : {record.waiters, lock.waiters()}) {
      ASSERT_EQ(line.size(), 2U);
      for (const LockWaiter& waiter : line) {
        EXPECT_EQ(waiter.runner, others.runner().str());
        EXPECT_EQ(waiter.pid, getpid());
        EXPECT_EQ(waiter.host, record.host);
        EXPECT_EQ(waiter.kind, LockKind::exclusive);
      }
      EXPECT_EQ(line[0].priority, 3);
      EXPECT_EQ(line[1].priority, 0);
      // The server notes it in whole milliseconds.
      EXPECT_GE(line[1].since, before - 1ms);
      EXPECT_LE(line[1].since, between);
      EXPECT_GE(line[0].since, between - 1ms);
      EXPECT_LE(line[0].since, after);
    }
    held->release();
    waiters[1].release();
    waiters[0].release();
  });
}

TEST_P(LockLineTest, MetricsCountWaitersHandoversAndTheTimeWaited) {
  repeat_if_evicted([&] {
    hold();
    const LockStats before = others.stats();
    const auto handovers = events->count(LockEventType::handover);
    const auto queued = events->count(LockEventType::queued);
    const auto started = Clock::now();
    join("a");
    join("b");
    Waiter& refused = start("c", {.wait = 50ms});
    EXPECT_FALSE(refused.got_it());
    EXPECT_EQ(others.stats().waiting, 2U);
    EXPECT_EQ(others.stats().handovers, before.handovers);
    held->release();
    waiters[0].release();
    waiters[1].release();
    const auto most = Clock::now() - started;
    const LockStats stats = others.stats();
    EXPECT_EQ(stats.waiting, 0U);
    EXPECT_EQ(stats.contended, before.contended + 3);
    EXPECT_EQ(stats.handovers, before.handovers + 2);
    EXPECT_EQ(stats.time_waited.count, before.time_waited.count + 2);
    // Both have waited through the 50 ms of the third.
    EXPECT_GE(stats.time_waited.sum - before.time_waited.sum, 100ms);
    EXPECT_LE(stats.time_waited.sum - before.time_waited.sum, 2 * most);
    EXPECT_EQ(stats.waiters_evicted, before.waiters_evicted);
    EXPECT_GE(events->count(LockEventType::queued), queued + 2);
    EXPECT_EQ(events->count(LockEventType::handover), handovers + 2);
  });
}

// ---- Time-outs of some waiters leave the others alone. Six situations in which fair locks that
// keep a time-out for each place in the line are known to go wrong.

class LockLineDriftTest : public LockLineTest {};
ON_EVERY_STORE(LockLineDriftTest);

TEST_P(LockLineDriftTest, TimeOutsInAnyOrderLeaveTheOthersInTheirOrder) {
  repeat_if_evicted([&] {
    hold();
    const std::vector<std::chrono::milliseconds> waits{350ms, 0ms, 250ms, 150ms, 0ms, 200ms, 0ms};
    for (std::size_t i = 0; i < waits.size(); ++i) {
      start(std::to_string(i),
            {.wait = waits[i] == 0ms ? LockOptions::forever : waits[i] + 3'500ms, .priority = 0});
      ASSERT_TRUE(eventually([&] { return line_length(client, name) == i + 1; }, patience));
    }
    for (const std::size_t gone : {0U, 2U, 3U, 5U}) EXPECT_FALSE(waiters[gone].got_it());
    EXPECT_EQ(line_length(client, name), 3U);
    held->release();
    for (const std::size_t next : {1U, 4U, 6U}) {
      EXPECT_EQ(holder_of(client, name), std::to_string(next));
      waiters[next].release();
    }
  });
}

TEST_P(LockLineDriftTest, AfterManyAbandonedWaitersTheLockIsToBeHadAtOnce) {
  hold();
  for (int i = 0; i < 40; ++i) start(std::to_string(i), {.wait = 50ms});
  for (Waiter& waiter : waiters) EXPECT_FALSE(waiter.got_it());
  held->release();
  EXPECT_TRUE(client.acquire(name, {.on_conflict = OnConflict::fail_fast}));
}

TEST_P(LockLineDriftTest, TimeOutInTheMiddleDoesNotDelayThoseBehind) {
  repeat_if_evicted([&] {
    hold();
    join("first");
    Waiter& middle = start("middle", {.wait = 100ms});
    EXPECT_FALSE(middle.got_it());
    join("last");
    Waiter& middle_again = start("middle", {.wait = 100ms});
    EXPECT_FALSE(middle_again.got_it());
    held->release();
    EXPECT_EQ(holder_of(client, name), "first");
    waiters[0].release();
    EXPECT_EQ(holder_of(client, name), "last");
    waiters[2].release();
  });
}

TEST_P(LockLineDriftTest, HeadTimesOutWhileTheHolderRenewsAndTheNextWaitsOn) {
  store.repeat_if_heartbeats_starved(3s, [&] {
    start_over();
    hold({.ttl = 3s});
    Waiter& head = start("head", {.wait = 4s});
    ASSERT_TRUE(eventually([&] { return line_length(client, name) == 1; }, patience));
    join("next");
    EXPECT_FALSE(head.got_it());
    // The lease has been renewed beyond its first end: it is not up for those who wait.
    EXPECT_EQ(holder_of(client, name), "holder");
    EXPECT_TRUE(held->valid());
    EXPECT_EQ(line_length(client, name), 1U);
    held->release();
    EXPECT_EQ(holder_of(client, name), "next");
    waiters[1].release();
  });
}

TEST_P(LockLineDriftTest, RepeatedShortTriesNeitherDelayTheOthersNorAddUp) {
  repeat_if_evicted([&] {
    hold();
    join("patient");
    for (int i = 0; i < 100; ++i) {
      EXPECT_FALSE(client.acquire(name, {.wait = 2ms, .priority = i % 3 - 1}));
    }
    EXPECT_EQ(line_length(client, name), 1U);
    join("after");
    held->release();
    EXPECT_EQ(holder_of(client, name), "patient");
    waiters[0].release();
    EXPECT_EQ(holder_of(client, name), "after");
    waiters[1].release();
  });
}

// ---- All data is lost. That costs those who wait a second or two and never a hang. The bound is
// twice as long, for machines that are busy with other things, and longer by what this one stood
// still.

class LockLineDataLossTest : public LockLineTest {
 protected:
  std::chrono::milliseconds most_delay() {
    return 4s + std::chrono::duration_cast<std::chrono::milliseconds>(stalls_.time_lost());
  }

  void expect_all_get_it_soon_after(Clock::time_point start) {
    for (Waiter& waiter : waiters) {
      EXPECT_TRUE(waiter.got_it());
      EXPECT_LT(waiter.ended_at() - start, most_delay());
    }
  }

 private:
  StallWatch stalls_{100ms};
};
ON_EVERY_STORE(LockLineDataLossTest);

TEST_P(LockLineDataLossTest, IsSurvived) {
  hold();
  join("a", {}, Then::pass);
  join("b", {}, Then::pass);
  store.lose_all_data();
  expect_all_get_it_soon_after(Clock::now());
}

TEST_P(LockLineDataLossTest, WaitersComeBackToTheirPlaces) {
  repeat_if_evicted([&] {
    client.force_release(name);  // who has it after an attempt that failed
    hold();
    for (const char* id : {"a", "b", "c"}) join(id);
    store.lose_all_data_and_occupy(name);
    ASSERT_TRUE(eventually([&] { return line_length(client, name) == 3; }, most_delay()));
    join("late");
    client.force_release(name);
    for (std::size_t i = 0; i < waiters.size(); ++i) {
      EXPECT_EQ(holder_of(client, name), ids[i]);
      waiters[i].release();
    }
  });
}

TEST_P(LockLineDataLossTest, NewcomersOfTheSameProcessDoNotHideThatTheOthersFellOutOfTheLine) {
  hold();
  join("a", {}, Then::pass);
  join("b", {}, Then::pass);
  store.lose_all_data_and_occupy(name);
  // At once: before anybody has looked after the line.
  start("newcomer", {}, Then::pass);
  EXPECT_TRUE(eventually([&] { return line_length(client, name) == 3; }, most_delay()));
  client.force_release(name);
  expect_all_get_it_soon_after(Clock::now());
}

TEST_F(RedisLockLineTest, DeadWaiterFollowedByLivingOnesCostsThemNothing) {
  // Dead as far as Redis can see: cut off, and it cannot come back. (One that is killed:
  // lock_line_process_test.)
  FaultProxy proxy{redis.port()};
  LockClient cut_off{redis.uri_through(proxy.port()), as_new_runner()};
  hold();
  {
    Waiter dead{cut_off, name, {.wait = LockOptions::forever}};
    ASSERT_TRUE(eventually([&] { return line_length(client, name) == 1; }, patience));
    ASSERT_TRUE(store.all_listen(3));
    join("living 1");
    join("living 2");
    proxy.refuse(true);
    proxy.cut();
    ASSERT_TRUE(store.all_listen(2));
    held->release();
    EXPECT_EQ(holder_of(client, name), "living 1");
    waiters[0].release();
    EXPECT_EQ(holder_of(client, name), "living 2");
    waiters[1].release();
    EXPECT_EQ(holder_of(client, name), "nobody");
    proxy.refuse(false);
    dead.release();  // it was not dead after all
  }
}

}  // namespace
}  // namespace leasehold::testing
