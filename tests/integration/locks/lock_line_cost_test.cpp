// What the line costs Redis.
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>

#include "tests/integration/locks/lock_line_fixture.hpp"
#include "tests/support/fault_proxy.hpp"

namespace leasehold::testing {
namespace {

using Clock = std::chrono::steady_clock;
using Then = Waiter::Then;

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
  // Once the client listens it asks whether what it holds is still its own: that is not counted.
  ASSERT_TRUE(store.all_listen(1));
  ASSERT_TRUE(eventually(
      [&] {
        redis.command({"CONFIG", "RESETSTAT"});
        EXPECT_EQ(client.acquire("free")->release(), Release::done);
        return scripts_run() == 2;
      },
      patience));
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
