// A Redis that is full, stands still or is demoted, and requests that reach it too late (L9).
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/process.hpp"
#include "harness/resp_client.hpp"
#include "harness/temp_dir.hpp"
#include "leasehold/redis_link.hpp"
#include "tests/support/kept_log.hpp"
#include "tests/support/lock_network_fixture.hpp"
#include "tests/support/refusal_of.hpp"
#include "tests/support/starvation.hpp"
#include "tests/support/test_namespace.hpp"
#include "tests/support/waiter.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;
using Reason = ServerRefused::Reason;

// --- Requests that arrive after their sender has given up --------------------------------------

class LateRequestTest : public LockNetworkTest {
 protected:
  /// Makes the request while nothing passes, and lets its sender end. Then the network is back.
  void lose_contact_during(const std::function<void(LockClient&)>& request) {
    proxy.blackhole(true);
    EXPECT_THROW(request(*client), Error);
    client.reset();
    proxy.blackhole(false);
    // Redis has read what was sent once it knows that the connections have ended.
    EXPECT_TRUE(eventually([&] { return proxy.connections() == 0; }));
    redis.command({"PING"});
    redis.command({"PING"});
  }
};

TEST_F(LateRequestTest, AcquireIsNotGranted) {
  lose_contact_during(
      [](LockClient& sender) { sender.acquire("lock", {.ttl = 60s, .wait = 0ms}); });
  EXPECT_FALSE(is_locked());
}

TEST_F(LateRequestTest, WaiterDoesNotJoinTheLine) {
  const Lock lock = outside.acquire("lock").value();
  lose_contact_during([](LockClient& sender) { sender.acquire("lock", {.wait = 100ms}); });
  EXPECT_EQ(outside.status("lock")->waiter_count, 0U);
}

TEST_F(LateRequestTest, ForceDoesNotOustALivingHolder) {
  Lock lock = outside.acquire("lock").value();
  lose_contact_during([](LockClient& sender) {
    sender.acquire("lock", {.wait = 0ms, .on_conflict = OnConflict::force});
  });
  EXPECT_EQ(lock.extend(), Ownership::held);
}

TEST_F(LateRequestTest, ServerThatStoodStillDoesNotExecuteAForceThatWasGivenUp) {
  Lock lock = outside.acquire("lock", {.ttl = 60s}).value();
  for (const bool release : {false, true}) {
    redis.pause();
    EXPECT_THROW(
        release ? void(client->force_release("lock"))
                : void(client->acquire("lock", {.wait = 0ms, .on_conflict = OnConflict::force})),
        Error);
    redis.resume();
    redis.command({"PING"});
    EXPECT_EQ(lock.extend(), Ownership::held);
  }
}

// --- Redis at its memory limit -----------------------------------------------------------------

class FullRedisTest : public ::testing::Test {
 protected:
  /// From now on every command is refused that may need memory.
  void fill() { redis.command({"CONFIG", "SET", "maxmemory", "1"}); }
  void make_room() { redis.command({"CONFIG", "SET", "maxmemory", "0"}); }
  /// How many commands were refused for lack of memory.
  unsigned long refusals() {
    const std::string stats = redis.command({"INFO", "errorstats"}).string;
    const std::string label = "errorstat_OOM:count=";
    const auto found = stats.find(label);
    return found == std::string::npos ? 0 : std::stoul(stats.substr(found + label.size()));
  }
  void TearDown() override {
    make_room();
    expect_nothing_left(redis);
  }

  RedisServer redis;
  std::shared_ptr<EventRecorder> events = std::make_shared<EventRecorder>();
  LockClient client{redis.uri(), as_new_runner(events)};
  LockClient other{redis.uri(), as_new_runner()};
};

TEST_F(FullRedisTest, HoldersKeepTheirLocks) {
  Lock exclusive = client.acquire("exclusive", {.ttl = 60s}).value();
  SharedLock shared_lock{client, "shared"};
  Lock shared = shared_lock.read({.ttl = 60s}).value();
  Semaphore semaphore{client, "permits", 2};
  Lock permit = semaphore.acquire({.ttl = 60s}).value();
  Lock downgraded = client.acquire("downgraded", {.ttl = 60s}).value();
  fill();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(exclusive.extend(), Ownership::held);
    EXPECT_EQ(shared.extend(), Ownership::held);
    EXPECT_EQ(permit.extend(), Ownership::held);
    EXPECT_EQ(downgraded.downgrade(), Ownership::held);
  }
  for (Lock* lock : {&exclusive, &shared, &permit, &downgraded}) {
    const LockRecord record = other.status(lock->name()).value();
    const LockRecord& holder = record.holders.empty() ? record : record.holders.front();
    EXPECT_GT(holder.remaining, 59s) << lock->name();
    EXPECT_EQ(lock->release(), Release::done) << lock->name();
    EXPECT_FALSE(other.status(lock->name())) << lock->name();
  }
}

TEST_F(FullRedisTest, LocksAreHandedOver) {
  Lock lock = client.acquire("lock").value();
  Waiter waiter{other, "lock", {.wait = patience}};
  ASSERT_TRUE(eventually([&] { return client.status("lock")->waiter_count == 1; }, patience));
  fill();
  EXPECT_EQ(lock.release(), Release::done);
  EXPECT_GT(waiter.lock().token(), lock.token());
  EXPECT_EQ(waiter.lock().release(), Release::done);
}

TEST_F(FullRedisTest, AcquiringSaysWhyAndIsTriedAgain) {
  client.acquire("lock").value().release();
  fill();
  EXPECT_EQ(refusal_of([&] { client.acquire("lock", {.wait = 0ms}); }, "maxmemory"),
            Reason::out_of_memory);
  Waiter waiter{client, "lock", {.wait = patience}};
  EXPECT_TRUE(eventually([&] { return refusals() > 1; }));
  make_room();
  EXPECT_TRUE(waiter.got_it());
}

TEST_F(FullRedisTest, NothingIsLoggedAboutLocksThatWereNotGranted) {
  const auto [logger, log] = KeptLog::make();
  auto options = as_new_runner();
  options.logger = logger;
  LockClient logging{redis.uri(), options};
  logging.acquire("lock").value().release();
  fill();
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW(logging.acquire("lock", {.wait = 0ms}), ServerRefused);
  }
  EXPECT_EQ(log->count("not released"), 0);
}

TEST_F(FullRedisTest, WaiterThatIsRefusedStillHearsThatItIsOfferedTheLock) {
  // If we get no time, the offer ends for that reason.
  repeat_if_stalled(500ms, [&] {
    make_room();
    const auto evictions = [&] {
      return client.stats().waiters_evicted + other.stats().waiters_evicted;
    };
    const auto before = evictions();
    Lock lock = client.acquire("lock", {.ttl = 60s, .wait = patience}).value();
    Waiter waiter{other, "lock", {.wait = LockOptions::forever}};
    ASSERT_TRUE(eventually([&] { return line_length(client, "lock") == 1; }, patience));
    ASSERT_TRUE(all_listen(redis, 2));
    fill();
    // After each reset it asks, and is refused: so its pauses grow, up to several seconds.
    for (int i = 0; i < 4; ++i) {
      const auto refused = refusals();
      redis.command({"CLIENT", "KILL", "TYPE", "pubsub"});
      ASSERT_TRUE(
          eventually([&] { return refusals() > refused && all_listen(redis, 2); }, patience));
    }
    EXPECT_EQ(lock.release(), Release::done);
    EXPECT_TRUE(waiter.got_it());
    EXPECT_EQ(evictions(), before) << "it came to its offer too late";
  });
}

// --- A Redis that stands still -----------------------------------------------------------------

TEST_F(LockNetworkTest, LateHeartbeatDoesNotBringBackWhatHasEnded) {
  for (const auto kind : {LockKind::exclusive, LockKind::shared}) {
    SharedLock both{*client, "lock"};
    const LockOptions options{.ttl = 1s, .wait = patience};
    Lock lock = kind == LockKind::exclusive ? client->acquire("lock", options).value()
                                            : both.read(options).value();
    redis.pause();  // heartbeats pile up in its buffers
    ASSERT_TRUE(wait_for_stop(lock.lost()));
    std::this_thread::sleep_for(1s);  // past the end in Redis
    redis.resume();
    // All that was sent before is executed before this.
    const auto record = outside.status("lock");
    EXPECT_TRUE(!record || record->state == LockState::stale);
    outside.acquire("lock", {.wait = patience}).value().release();
  }
}

// --- A primary that becomes a replica ------------------------------------------------------------

TEST(DemotedRedisTest, LocksWorkAgainWhenItIsAPrimaryAgain) {
  const RedisServer redis;
  LockClient client{redis.uri(), as_new_runner()};
  client.acquire("lock").value().release();
  const auto connections = [&] {
    const std::string info = redis.command({"INFO", "stats"}).string;
    const std::string field = "total_connections_received:";
    return std::stoul(info.substr(info.find(field) + field.size()));
  };
  redis.command({"REPLICAOF", "127.0.0.1", "1"});
  EXPECT_EQ(refusal_of([&] { client.acquire("lock", {.wait = 0ms}); }, "replica"),
            Reason::read_only);
  const auto before = connections();
  Waiter waiter{client, "lock", {.wait = LockOptions::forever}};
  // Another server may have taken over the name: it is looked up again.
  EXPECT_TRUE(eventually([&] { return connections() >= before + 2; }));
  redis.command({"REPLICAOF", "NO", "ONE"});
  EXPECT_TRUE(waiter.got_it());
}

TEST(DemotedRedisTest, ClientMovesToTheNewPrimaryAndListensThere) {
  const RedisServer old_primary;
  const RedisServer new_primary;
  FaultProxy name{old_primary.port()};
  LockClient client{new_primary.uri_through(name.port()), as_new_runner()};
  LockClient other{new_primary.uri_through(name.port()), as_new_runner()};
  client.acquire("lock").value().release();
  other.acquire("lock").value().release();
  ASSERT_TRUE(all_listen(old_primary, 2));
  // Its connections stay, and it answers PING.
  old_primary.command({"REPLICAOF", "127.0.0.1", std::to_string(new_primary.port())});
  name.retarget(new_primary.port());
  Lock lock = client.acquire("lock", {.wait = patience}).value();
  Waiter waiter{other, "lock", {.wait = LockOptions::forever}};
  EXPECT_TRUE(all_listen(new_primary, 2));
  EXPECT_TRUE(all_listen(old_primary, 0));
  EXPECT_EQ(lock.release(), Release::done);
  EXPECT_TRUE(waiter.got_it());
}

TEST(DemotedRedisTest, SubscriptionDoesNotStayWithAReplica) {
  const RedisServer primary;
  const RedisServer replica;
  replica.command({"REPLICAOF", "127.0.0.1", "1"});
  FaultProxy name{primary.port()};
  LockClient client{primary.uri_through(name.port()), as_new_runner()};
  client.acquire("lock").value().release();
  ASSERT_TRUE(all_listen(primary, 1));
  // The commands' connections stay, so that no command meets the replica and is refused.
  name.retarget(replica.port());
  const auto before = name.accepted();
  primary.command({"CLIENT", "KILL", "TYPE", "pubsub"});
  ASSERT_TRUE(eventually([&] { return name.accepted() > before; }, patience));
  name.retarget(primary.port());
  EXPECT_TRUE(all_listen(primary, 1));
}

/// What a replica that lags says of a lock.
enum class Lag { nothing_there, somebody_else };

/// A client has a lock on the new primary, while its connections still lead to the old one, which
/// has become a replica that lags.
class LaggingReplicaTest : public ::testing::TestWithParam<Lag> {
 protected:
  /// Renews the lock, too: heartbeats have a connection of their own.
  void fail_over_with(Lock& lock) {
    ASSERT_TRUE(eventually([&] { return lock.extend() == Ownership::held; }));
    std::vector<std::string> move{
        "MIGRATE", "127.0.0.1", std::to_string(new_primary.port()), "", "0", "10000", "KEYS"};
    for (const std::string& key : old_primary.keys(key_of("lock") + "*")) move.push_back(key);
    // In one step: as a primary without the lock it could rightly say that the lock is gone.
    old_primary.command({"MULTI"});
    old_primary.command(move);
    if (GetParam() == Lag::somebody_else) old_primary.command({"SET", key_of("lock"), "somebody"});
    old_primary.command({"REPLICAOF", "127.0.0.1", "1"});
    for (const auto& reply : old_primary.command({"EXEC"}).elements) {
      ASSERT_FALSE(reply.is_error()) << reply.string;
    }
    ASSERT_TRUE(key_exists(new_primary, key_of("lock")));
    name.retarget(new_primary.port());
  }

  static LockClientOptions logging_to(std::shared_ptr<spdlog::logger> logger) {
    auto options = as_new_runner();
    options.logger = std::move(logger);
    return options;
  }

  const RedisServer old_primary;
  const RedisServer new_primary;
  FaultProxy name{old_primary.port()};
  const std::pair<std::shared_ptr<spdlog::logger>, std::shared_ptr<KeptLog>> logged =
      KeptLog::make();
  LockClient client{old_primary.uri_through(name.port()), logging_to(logged.first)};
  const LockOptions without_heartbeats{.ttl = 1h};  // while the test runs
};

TEST_P(LaggingReplicaTest, DoesNotEndAnExclusiveLockThatIsRenewed) {
  Lock lock = client.acquire("lock", without_heartbeats).value();
  fail_over_with(lock);
  EXPECT_TRUE(eventually([&] { return lock.extend() == Ownership::held; }))
      << to_string(lock.loss_reason());
}

TEST_P(LaggingReplicaTest, DoesNotEndASharedLockThatIsRenewed) {
  Lock lock = SharedLock{client, "lock"}.read(without_heartbeats).value();
  fail_over_with(lock);
  EXPECT_TRUE(eventually([&] { return lock.extend() == Ownership::held; }))
      << to_string(lock.loss_reason());
}

TEST_P(LaggingReplicaTest, DoesNotEndALockThatIsDowngraded) {
  Lock lock = client.acquire("lock", without_heartbeats).value();
  fail_over_with(lock);
  EXPECT_TRUE(eventually([&] { return lock.downgrade() == Ownership::held; }))
      << to_string(lock.loss_reason());
}

TEST_P(LaggingReplicaTest, DoesNotEndALockThatIsVerified) {
  Lock lock = client.acquire("lock", without_heartbeats).value();
  ASSERT_TRUE(all_listen(old_primary, 1));
  fail_over_with(lock);
  // The subscription comes back on the new primary. The client then asks, over the connection of
  // the heartbeats, whether it lost the lock meanwhile.
  old_primary.command({"CLIENT", "KILL", "TYPE", "pubsub"});
  EXPECT_TRUE(eventually(
      [&] { return logged.second->count("locks not verified") > 0 || !lock.valid(); }, patience));
  EXPECT_TRUE(lock.valid()) << to_string(lock.loss_reason());
  EXPECT_TRUE(eventually([&] { return lock.extend() == Ownership::held; }));
}

INSTANTIATE_TEST_SUITE_P(, LaggingReplicaTest,
                         ::testing::Values(Lag::nothing_there, Lag::somebody_else),
                         [](const auto& each) {
                           return each.param == Lag::nothing_there ? "NothingThere"
                                                                   : "SomebodyElse";
                         });

// --- A server that continues with older data ---------------------------------------------------

/// The token of a grant on this server.
FencingToken token_on(const RedisEndpoint& redis) {
  LockClient client{redis.uri(), as_new_runner()};
  return client.acquire("lock", {.wait = patience}).value().token();
}

TEST(OlderDataTest, TokensGrowAfterAFailoverToAReplicaThatLagged) {
  RedisServer primary(RedisServerOptions{.config_lines = {"repl-diskless-sync-delay 0"}});
  RedisServer replica(RedisServerOptions{
      .config_lines = {"replicaof 127.0.0.1 " + std::to_string(primary.port())}});
  token_on(primary);
  ASSERT_TRUE(eventually(
      [&] {
        return replica.command({"EXISTS", fence_key_of("lock")}).integer == 1;
      },
      patience));
  replica.pause();
  FencingToken last;
  for (int i = 0; i < 10; ++i) last = token_on(primary);
  primary.pause();
  replica.resume();
  replica.command({"REPLICAOF", "NO", "ONE"});
  EXPECT_GT(token_on(replica), last);
  primary.resume();
}

/// Goes on with what was saved last.
void restart_from_old_snapshot(RedisServer& redis) {
  redis.kill();
  redis.start();
}

TEST(OlderDataTest, TokensGrowAfterARestartFromAnOldSnapshot) {
  RedisServer redis;
  token_on(redis);
  redis.command({"SAVE"});
  FencingToken last;
  for (int i = 0; i < 10; ++i) last = token_on(redis);
  restart_from_old_snapshot(redis);
  EXPECT_GT(token_on(redis), last);
}

TEST(OlderDataTest, ClientThatStaysNoticesThatAnotherServerHasTakenOver) {
  RedisServer redis;
  LockClient client{redis.uri(), as_new_runner()};
  const auto token = [&] { return client.acquire("lock", {.wait = patience}).value().token(); };
  token();
  redis.command({"SAVE"});
  FencingToken last;
  for (int i = 0; i < 10; ++i) last = token();
  restart_from_old_snapshot(redis);
  EXPECT_GT(token(), last);
}

TEST(OlderDataTest, TokensOfReadersThatWaitedGrowToo) {
  RedisServer redis;
  LockClient client{redis.uri(), as_new_runner()};
  Lock lock = client.acquire("lock", {.ttl = 2s, .heartbeat = Heartbeat::manual}).value();
  redis.command({"SAVE"});
  lock.release();
  FencingToken last;
  for (int i = 0; i < 10; ++i) last = token_on(redis);
  restart_from_old_snapshot(redis);  // which still has the first grant
  // More of them than one script looks at.
  std::vector<std::future<FencingToken>> readers;
  for (int i = 0; i < 60; ++i) {
    readers.push_back(std::async(std::launch::async, [&] {
      return SharedLock{client, "lock"}.read({.wait = patience}).value().token();
    }));
  }
  for (auto& reader : readers) EXPECT_GT(reader.get(), last);
}

// --- A line of the dead --------------------------------------------------------------------------

/// As if so many processes had joined the line to write, and died.
void add_dead_waiters(const RedisEndpoint& redis, int number) {
  redis.command({"EVAL", R"(
    for i = 1, tonumber(ARGV[1]) do
      local owner, client = string.format('%032x', i), string.format('%016x', i)
      redis.call('ZADD', KEYS[1], i, owner)
      redis.call('ZADD', KEYS[3], 1, client)  -- last seen long ago
      redis.call('HSET', KEYS[2], 'w:' .. owner,
        client .. ' x 0 0 0 ' .. i .. ' ' .. owner .. '={"runner":"r","pid":1,"host":"h","client":"' ..
        client .. '","ttl":1000,"every":300,"linger":1000}')
    end)",
                 "3", key_of("lock") + ":line", key_of("lock") + ":book", key_of("lock") + ":seen",
                 std::to_string(number)});
}

TEST(DeadLineTest, LineOfThousandsOfDeadProcessesMovesOnInSmallSteps) {
  RedisServer redis;
  LockClient client{redis.uri(), as_new_runner()};
  LockClient other{redis.uri(), as_new_runner()};
  Lock lock = client.acquire("lock").value();
  constexpr int dead = 5'000;
  add_dead_waiters(redis, dead);
  Waiter living{other, "lock", {.wait = patience}};
  ASSERT_TRUE(eventually([&] { return line_length(client, "lock") == dead + 1; }, patience));
  redis.command({"CONFIG", "RESETSTAT"});
  lock.release();
  EXPECT_TRUE(living.got_it());
  const auto calls_of =
      [&, stats = redis.command({"INFO", "commandstats"}).string](const std::string& command) {
        const std::string field = "cmdstat_" + command + ":calls=";
        const auto at = stats.find(field);
        return at == std::string::npos ? 0 : std::stoi(stats.substr(at + field.size()));
      };
  EXPECT_GE(calls_of("publish"), dead) << "each of them is told";
  EXPECT_GE(calls_of("evalsha"), dead / 30) << "more than 30 in one script";
  EXPECT_EQ(calls_of("zremrangebyscore"), 0) << "it removes any number at once";
}

TEST(DeadLineTest, DeadWritersBehindReadersDoNotGetTheLockBesideThem) {
  RedisServer redis;
  LockClient client{redis.uri(), as_new_runner()};
  LockClient other{redis.uri(), as_new_runner()};
  SharedLock lock{client, "lock"};
  SharedLock others{other, "lock"};
  Lock reader = lock.read({.ttl = 60s}).value();
  add_dead_waiters(redis, 200);
  const Lock second = others.read({.wait = patience}).value();
  EXPECT_EQ(reader.extend(), Ownership::held);
  EXPECT_EQ(client.status("lock")->holder_count, 2U);
  EXPECT_EQ(line_length(client, "lock"), 0U);
}

// --- What is not a fault, or one of others only --------------------------------------------------

TEST(ClonedRunnerTest, LivingLockOfACopyIsTakenWithANewToken) {
  const RedisServer redis;
  const TempDir machine;
  const TempDir clone;
  const auto client_on = [&](const TempDir& dir) {
    auto options = as_new_runner();
    options.runner = RunnerId::from_file(dir.path() / "runner");
    return std::make_unique<LockClient>(redis.uri(), options);
  };
  const auto first = client_on(machine);
  std::filesystem::copy_file(machine.path() / "runner", clone.path() / "runner");
  const auto second = client_on(clone);
  ASSERT_EQ(first->runner().str(), second->runner().str());
  const LockOptions options{.reentry = Reentry::allowed, .wait = 0ms};
  Lock lock = first->acquire("lock", options).value();
  Lock taken = second->acquire("lock", options).value();
  EXPECT_GT(taken.token(), lock.token());
  EXPECT_TRUE(wait_for_stop(lock.lost()));
  EXPECT_EQ(lock.loss_reason(), LossReason::taken);
}

TEST(ForeignSubscriberTest, WhoHearsEverythingDoesNotMakeTheDeadLookAlive) {
  const RedisServer redis;
  harness::RespClient monitor(redis.address(), 120s);
  monitor.command({"PSUBSCRIBE", "*"});
  LockClient client{redis.uri(), as_new_runner()};
  LockClient living{redis.uri(), as_new_runner()};
  Lock lock = client.acquire("lock").value();
  std::vector<std::unique_ptr<Process>> dying;
  for (int i = 0; i < 4; ++i) {
    dying.push_back(std::make_unique<Process>(
        std::vector<std::string>{LEASEHOLD_TEST_PROGRAMS "/lock_line_program", redis.uri()}));
    ASSERT_TRUE(dying.back()->read_line(patience));
    ASSERT_TRUE(dying.back()->write_line("acquire d lock 60000 0 hold"));
    ASSERT_TRUE(eventually([&] { return line_length(client, "lock") == dying.size(); }, patience));
  }
  Waiter waiter{living, "lock", {.wait = patience}};
  ASSERT_TRUE(eventually([&] { return line_length(client, "lock") == 5; }, patience));
  for (const auto& process : dying) process->kill(SIGKILL);
  const auto released = std::chrono::steady_clock::now();
  lock.release();
  EXPECT_TRUE(waiter.got_it());
  // Two seconds for all of them together; the machine may be slow.
  EXPECT_LT(waiter.ended_at() - released, 4s);
}

TEST(AbandonedLineTest, LineOfALockWhoseKeyIsGoneMovesOnByForceRelease) {
  const RedisServer redis;
  LockClient client{redis.uri(), as_new_runner()};
  LockClient other{redis.uri(), as_new_runner()};
  Lock lock = client.acquire("lock", {.heartbeat = Heartbeat::manual}).value();
  Waiter waiter{other, "lock", {.wait = patience}};
  ASSERT_TRUE(eventually([&] { return line_length(client, "lock") == 1; }, patience));
  ASSERT_TRUE(all_listen(redis, 2));
  redis.command({"DEL", key_of("lock")});
  client.force_release("lock");
  // In the same script: nobody else can get in between.
  EXPECT_EQ(redis.command({"EXISTS", key_of("lock")}).integer, 1);
  EXPECT_TRUE(waiter.got_it());
}

/// A waiter whose call has left it behind: its request was delivered late. It stands before all
/// others, and its process lives and listens.
void plant_ghost(const RedisEndpoint& redis, const std::string& name) {
  const std::string line = key_of(name) + ":line";
  const std::string book = key_of(name) + ":book";
  const std::string owner = redis.command({"ZRANGE", line, "0", "0"}).elements.at(0).string;
  const std::string ghost(32, 'a');
  std::string text = redis.command({"HGET", book, "w:" + owner}).string;
  text.replace(text.find(owner), owner.size(), ghost);
  redis.command({"HSET", book, "w:" + ghost, text});
  redis.command({"ZADD", line, "1", ghost});
}

TEST(GhostInLineTest, OfferThatNobodyWaitsForIsPassedOnAtOnce) {
  const RedisServer redis;
  LockClient client{redis.uri(), as_new_runner()};
  LockClient other{redis.uri(), as_new_runner()};
  const auto pass_on = [&](bool shared) {
    Lock lock = client.acquire("lock", {.ttl = 60s, .wait = patience}).value();
    const auto evicted = [&] {
      return client.stats().waiters_evicted + other.stats().waiters_evicted;
    };
    const auto before = evicted();
    std::optional<Lock> got;
    std::jthread waiter([&] {
      SharedLock both{other, "lock"};
      const LockOptions options{.wait = LockOptions::forever};
      got.emplace((shared ? both.read(options) : both.write(options)).value());
    });
    EXPECT_TRUE(eventually([&] { return line_length(client, "lock") == 1; }, patience));
    EXPECT_TRUE(all_listen(redis, 2));
    plant_ghost(redis, "lock");
    EXPECT_EQ(lock.release(), Release::done);
    waiter.join();
    EXPECT_EQ(evicted(), before) << "the offer was not given back, it lapsed";
    // The ghost has no part in it.
    EXPECT_TRUE(eventually([&] { return client.status("lock")->holder_count == 1; }, patience));
    got.reset();
    EXPECT_FALSE(client.status("lock"));
  };
  // If we get no time, the offer ends for that reason.
  for (const bool shared : {false, true}) repeat_if_stalled(500ms, [&] { pass_on(shared); });
}

TEST(UnreadableLockTest, ListSaysSoIfItMayNotLook) {
  const RedisServer redis;
  LockClient client{redis.uri(), as_new_runner()};
  const Lock lock = client.acquire("lock").value();
  redis.command({"ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-evalsha"});
  LockClient blind{"redis://blind:secret@127.0.0.1:" + std::to_string(redis.port()),
                   as_new_runner()};
  EXPECT_EQ(refusal_of([&] { blind.list(); }), Reason::permission);
  EXPECT_EQ(refusal_of([&] { blind.cleanup_stale(); }), Reason::permission);
}

}  // namespace
}  // namespace leasehold::testing
