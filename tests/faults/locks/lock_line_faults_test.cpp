// The waiting line when messages, connections, scripts or all data get lost. Whatever it is, it
// costs those who wait a second or two and never a hang. Bounds are twice as long, for machines
// that are busy with other things, and longer by what this one stood still.
#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "tests/support/fault_proxy.hpp"
#include "tests/support/lock_clients.hpp"
#include "tests/support/redis_keys.hpp"
#include "tests/support/starvation.hpp"
#include "tests/support/test_namespace.hpp"
#include "tests/support/waiter.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// A link on which messages can be made to get lost.
class ForgetfulLink final : public RedisLink {
 public:
  explicit ForgetfulLink(const std::string& uri) : link_(connect_redis(uri, options())) {}

  void lose_next_message() { lose_ = true; }
  bool has_lost() const { return !lose_; }

  std::vector<leasehold::RedisReply> pipeline(std::span<const RedisCommand> commands,
                                              const RedisCall& how) override {
    return link_->pipeline(commands, how);
  }
  std::unique_ptr<RedisSubscription> subscribe(std::string channel,
                                               std::function<void(std::string_view)> on_message,
                                               std::function<void()> on_subscribed) override {
    return link_->subscribe(
        std::move(channel),
        [this, on_message = std::move(on_message)](std::string_view message) {
          if (!lose_.exchange(false)) on_message(message);
        },
        std::move(on_subscribed));
  }
  std::string where() const override { return link_->where(); }

 private:
  static RedisOptions options() {
    RedisOptions options;
    options.command_timeout = 10s;
    return options;
  }

  std::shared_ptr<RedisLink> link_;
  std::atomic<bool> lose_{false};
};

bool answers(LockClient& client) {
  try {
    client.status("anything");
    return true;
  } catch (const Error&) {
    return false;
  }
}

class LockLineFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (LockClient* each : {&client, &others}) each->acquire(name).value().release();
    start_over();
    EXPECT_GE(proxy.connections(), 2U);  // a third one if a heartbeat was due
  }

  void start_over() {
    proxy.refuse(false);
    waiters.clear();
    lock.reset();
    EXPECT_TRUE(all_listen(redis, 2));
    lock.emplace(client.acquire(name, {.ttl = 60s, .metadata = {{"id", "holder"}}}).value());
  }

  /// For what depends on turns, of which each lasts a second: again if this process stood still.
  template <class Scenario>
  void repeat_if_turns_are_missed(const Scenario& scenario) {
    repeat_if_stalled(500ms, [&] {
      start_over();
      scenario();
    });
  }

  milliseconds most_delay() {
    return 4s + std::chrono::duration_cast<milliseconds>(stalls.time_lost());
  }

  void TearDown() override {
    waiters.clear();
    lock.reset();
    EXPECT_TRUE(eventually([&] { return redis.keys("*:line").empty(); }, patience));
    expect_nothing_left(redis);
  }

  /// A waiter behind the proxy that stands in line when this returns.
  Waiter& join(const std::string& id, Waiter::Then then = Waiter::Then::pass) {
    const auto before = line_length(client, name);
    Waiter& added = waiters.emplace_back(
        others, name, LockOptions{.metadata = {{"id", id}}, .wait = LockOptions::forever}, then);
    EXPECT_TRUE(eventually([&] { return line_length(client, name) == before + 1; }, patience));
    return added;
  }

  void expect_all_get_it_soon_after(Clock::time_point start) {
    for (Waiter& waiter : waiters) {
      EXPECT_TRUE(waiter.got_it());
      EXPECT_LT(waiter.ended_at() - start, most_delay());
    }
  }

  static LockClientOptions impatient() {
    auto options = as_new_runner();
    options.redis.command_timeout = 1s;
    return options;
  }

  StallWatch stalls{100ms};
  RedisServer redis;
  FaultProxy proxy{redis.port()};
  std::string name = name_for_test();
  LockClient client{redis.uri(), as_new_runner()};
  LockClient others{redis.uri_through(proxy.port()), impatient()};
  std::optional<Lock> lock;
  std::deque<Waiter> waiters;
};

TEST_F(LockLineFaultsTest, MessageThatGetsLostCostsAboutASecond) {
  const auto link = std::make_shared<ForgetfulLink>(redis.uri());
  LockClient forgetful{link, as_new_runner()};
  forgetful.acquire(name + ":listen").value().release();
  ASSERT_TRUE(all_listen(redis, 3));
  for (int i = 0; i < 2; ++i) {
    Waiter waiter{forgetful, name, {.wait = LockOptions::forever}};
    ASSERT_TRUE(eventually([&] { return line_length(client, name) == 1; }, patience));
    link->lose_next_message();
    const auto released = Clock::now();
    lock->release();
    EXPECT_LT(waiter.ended_at() - released, most_delay());
    EXPECT_TRUE(link->has_lost());
    lock.emplace(std::move(waiter.lock()));
  }
}

TEST_F(LockLineFaultsTest, SubscriptionsThatRedisEndsComeBack) {
  join("a");
  join("b");
  EXPECT_EQ(redis.command({"CLIENT", "KILL", "TYPE", "pubsub"}).integer, 2);
  const auto released = Clock::now();
  lock->release();
  expect_all_get_it_soon_after(released);
}

TEST_F(LockLineFaultsTest, WaitersWhoseConnectionsAreCutComeBackToTheirPlaces) {
  repeat_if_turns_are_missed([&] {
    join("a", Waiter::Then::hold);
    join("b", Waiter::Then::hold);
    Waiter outside{client, name, {.metadata = {{"id", "outside"}}, .wait = LockOptions::forever}};
    ASSERT_TRUE(eventually([&] { return line_length(client, name) == 3; }, patience));
    proxy.refuse(true);
    proxy.cut();
    ASSERT_TRUE(all_listen(redis, 1));
    const auto released = Clock::now();
    lock->release();
    // Nobody has to wait for those who cannot be told.
    EXPECT_EQ(holder_of(client, name), "outside");
    EXPECT_LT(outside.ended_at() - released, most_delay());
    Waiter late{client, name, {.wait = LockOptions::forever}};
    ASSERT_TRUE(eventually([&] { return line_length(client, name) == 1; }, patience));
    proxy.refuse(false);
    // Before the one that came while they were away.
    ASSERT_TRUE(eventually([&] { return line_length(client, name) == 3; }, patience));
    outside.release();
    EXPECT_EQ(holder_of(client, name), "a");
    waiters[0].release();
    EXPECT_EQ(holder_of(client, name), "b");
    waiters[1].release();
    late.release();
  });
}

TEST_F(LockLineFaultsTest, ClientThatIsBackLooksAfterAllItsLinesAtOnce) {
  // More than it would look after within the time allowed, five a second.
  constexpr int lines = 60;
  std::vector<Lock> locks;
  for (int i = 0; i < lines; ++i) {
    const std::string each = name + std::to_string(i);
    locks.push_back(client.acquire(each, {.ttl = 60s}).value());
    waiters.emplace_back(others, each, LockOptions{.wait = LockOptions::forever});
    ASSERT_TRUE(eventually([&] { return line_length(client, each) == 1; }, patience));
  }
  // Each is looked after once, a second after the waiter came; then in turn.
  std::this_thread::sleep_for(1'200ms);
  proxy.refuse(true);
  proxy.cut();
  ASSERT_TRUE(all_listen(redis, 1));
  locks.clear();
  const auto back = Clock::now();
  proxy.refuse(false);
  expect_all_get_it_soon_after(back);
}

TEST_F(LockLineFaultsTest, SubscriptionThatFellSilentIsReplaced) {
  join("a");
  join("b");
  // Redis believes that somebody listens there; nobody does. Only the subscription sends PING.
  proxy.swallow_next_request(FaultProxy::Then::hang, "PING");
  ASSERT_TRUE(proxy.wait_swallowed(patience));
  const auto connected = proxy.accepted();
  const auto released = Clock::now();
  lock->release();
  expect_all_get_it_soon_after(released);
  EXPECT_TRUE(eventually([&] { return proxy.accepted() > connected; }, patience));
}

TEST_F(LockLineFaultsTest, BrokenCableDuringTheHandoverIsSurvived) {
  join("a");
  join("b");
  proxy.blackhole(true);
  lock->release();
  // The grant is not confirmed, and lapses.
  ASSERT_TRUE(eventually([&] { return !client.status(name); }, patience));
  const auto mended = Clock::now();
  proxy.blackhole(false);
  expect_all_get_it_soon_after(mended);
}

TEST_F(LockLineFaultsTest, RedisThatStandsStillForAWhileIsWaitedFor) {
  join("a");
  join("b");
  redis.pause();
  std::this_thread::sleep_for(1'500ms);  // longer than the time-outs of commands and pings
  redis.resume();
  const auto resumed = Clock::now();
  lock->release();
  expect_all_get_it_soon_after(resumed);
}

TEST_F(LockLineFaultsTest, LineSurvivesARestartThatKeepsTheData) {
  join("a");
  join("b");
  redis.restart(Data::kept);
  EXPECT_EQ(line_length(client, name), 2U);
  ASSERT_TRUE(all_listen(redis, 2));
  const auto released = Clock::now();
  lock->release();
  expect_all_get_it_soon_after(released);
}

TEST_F(LockLineFaultsTest, ReleaseRightAfterARestartIsNotMissed) {
  join("a");
  join("b");
  redis.restart(Data::kept);
  const auto released = Clock::now();
  lock->release();
  expect_all_get_it_soon_after(released);
}

TEST_F(LockLineFaultsTest, RestartThatLosesAllDataIsSurvived) {
  join("a");
  join("b");
  redis.restart(Data::lost);
  expect_all_get_it_soon_after(Clock::now());
  // A release whose first reply is lost with the old connection could not tell what it found.
  EXPECT_TRUE(eventually([&] { return answers(client); }, patience));
  EXPECT_EQ(lock->release(), Release::was_lost);
}

TEST_F(LockLineFaultsTest, ScriptsThatRedisForgotAreLoadedAgain) {
  join("a");
  join("b");
  redis.command({"SCRIPT", "FLUSH"});
  lock->release();
  expect_all_get_it_soon_after(Clock::now());
  EXPECT_LT(waiters[0].lock().token(), waiters[1].lock().token());
}

TEST_F(LockLineFaultsTest, WaiterThatLeavesWhileRedisIsAwayLeavesTheLineWhenItIsBack) {
  // However short the lease would have been: a place in the line does not end by itself.
  Waiter& waiter =
      waiters.emplace_back(others, name, LockOptions{.ttl = 50ms, .wait = LockOptions::forever});
  ASSERT_TRUE(eventually([&] { return line_length(client, name) == 1; }, patience));
  proxy.refuse(true);
  proxy.cut();
  waiter.cancel();
  EXPECT_FALSE(waiter.got_it());
  EXPECT_EQ(line_length(client, name), 1U);
  // Longer than the lease would have been, and than the first attempts to leave.
  std::this_thread::sleep_for(500ms);
  proxy.refuse(false);
  EXPECT_TRUE(eventually([&] { return line_length(client, name) == 0; }, patience));
}

}  // namespace
}  // namespace leasehold::testing
