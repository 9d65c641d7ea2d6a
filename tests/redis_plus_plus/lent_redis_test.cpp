// Locks through a Redis of redis-plus-plus.
#include <gtest/gtest.h>
#include <sw/redis++/redis++.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "harness/process.hpp"
#include "harness/redis_replication.hpp"
#include "harness/redis_server.hpp"
#include "leasehold/redis_plus_plus.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/link_calls.hpp"
#include "tests/support/lock_clients.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/redis_keys.hpp"
#include "tests/support/refusal_of.hpp"
#include "tests/support/test_namespace.hpp"
#include "tests/support/waiter.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::steady_clock;
using Type = leasehold::RedisReply::Type;

sw::redis::ConnectionOptions options_for(const RedisEndpoint& server) {
  sw::redis::ConnectionOptions options;
  options.host = server.address().host;
  options.port = server.port();
  options.connect_timeout = 10s;
  options.socket_timeout = 10s;
  return options;
}

std::shared_ptr<sw::redis::Redis> redis_at(const sw::redis::ConnectionOptions& options,
                                           std::size_t connections = 2) {
  sw::redis::ConnectionPoolOptions pool;
  pool.size = connections;
  return std::make_shared<sw::redis::Redis>(options, pool);
}

class LentRedis : public ::testing::Test {
 protected:
  RedisServer server;
  std::shared_ptr<sw::redis::Redis> redis = redis_at(options_for(server));
  std::shared_ptr<RedisLink> link = lend_redis(redis);
  LockClient client{link, as_new_runner()};
  LockClient other{lend_redis(redis), as_new_runner()};
};

TEST_F(LentRedis, LockIsAcquiredRefusedAndReleased) {
  Lock lock = client.acquire("lock", {.ttl = 30s}).value();
  EXPECT_FALSE(other.acquire("lock", {.on_conflict = OnConflict::fail_fast}));
  EXPECT_EQ(client.list().size(), 1U);
  EXPECT_EQ(lock.release(), Release::done);
  const Lock next = other.acquire("lock").value();
  EXPECT_GT(next.token(), lock.token());
}

TEST_F(LentRedis, SetOfLocksIsTakenTogether) {
  auto all = client.acquire_all({"a", "b", "c"});
  ASSERT_TRUE(all);
  EXPECT_FALSE(other.acquire("b", {.on_conflict = OnConflict::fail_fast}));
}

TEST_F(LentRedis, ReleaseHandsTheLockToTheNextInLine) {
  Lock lock = client.acquire("lock", {.ttl = 60s}).value();
  Waiter waiter{other, "lock", {.ttl = 60s, .wait = 60s}};
  ASSERT_TRUE(eventually([&] { return line_length(client, "lock") == 1; }));
  EXPECT_EQ(lock.release(), Release::done);
  ASSERT_TRUE(waiter.got_it());
  EXPECT_GT(waiter.lock().token(), lock.token());
}

TEST_F(LentRedis, HeartbeatsKeepTheLockWhileThePoolIsInUse) {
  const Lock lock = client.acquire("lock", {.ttl = 1s}).value();
  // Both connections of the pool are taken by the application for longer than the lock lives.
  std::jthread first([&] { redis->blpop("nothing", 3s); });
  std::jthread second([&] { redis->blpop("nothing", 3s); });
  first.join();
  second.join();
  EXPECT_FALSE(lock.lost().stop_requested());
  EXPECT_EQ(client.status("lock")->token, lock.token());
}

TEST_F(LentRedis, HolderIsToldOfALoss) {
  Lock lock = client.acquire("lock", {.ttl = 60s}).value();
  other.force_release("lock");
  EXPECT_TRUE(eventually([&] { return lock.lost().stop_requested(); }, 60s));
  EXPECT_EQ(lock.release(), Release::was_lost);
}

TEST_F(LentRedis, TokensGrowAfterTheServerHasLostItsData) {
  Lock lock = client.acquire("lock").value();
  lock.release();
  server.restart(Data::lost);
  const Lock next = client.acquire("lock", {.wait = 60s}).value();
  EXPECT_GT(next.token(), lock.token());
}

TEST_F(LentRedis, WaiterIsHeardAgainAfterARestart) {
  client.acquire("lock").value().release();
  server.restart(Data::kept);
  std::optional<Lock> lock = client.acquire("lock", {.ttl = 60s, .wait = 60s}).value();
  ASSERT_TRUE(all_listen(server, 1));
  Waiter waiter{other, "lock", {.wait = 60s}};
  ASSERT_TRUE(eventually([&] { return line_length(client, "lock") == 1; }));
  lock.reset();
  EXPECT_TRUE(waiter.got_it());
}

TEST_F(LentRedis, ErrorRepliesAreValues) {
  call(*link, {"SET", "text", "x"});
  const auto replies = call_all(*link, {{"LPUSH", "text", "1"}, {"GET", "text"}, {"NONSENSE"}});
  EXPECT_EQ(replies[0].type, Type::error);
  EXPECT_TRUE(replies[0].text.starts_with("WRONGTYPE"));
  EXPECT_EQ(replies[1].text, "x");
  EXPECT_EQ(replies[2].type, Type::error);
  EXPECT_TRUE(replies[2].text.starts_with("ERR unknown command"));
}

TEST_F(LentRedis, ConnectedAtIsTheTimeOfTheServer) {
  const std::string_view stamp{RedisLink::connected_at.data(), RedisLink::connected_at.size()};
  const std::string first = call(*link, {"ECHO", stamp}).text;
  EXPECT_EQ(first.size(), stamp.size());
  EXPECT_GT(first, "1600000000000000");
  EXPECT_EQ(call(*link, {"ECHO", stamp}).text.size(), stamp.size());
}

TEST_F(LentRedis, ServerThatHasStoppedDelaysDestructorsNoLongerThanTheTimeOut) {
  auto options = options_for(server);
  options.connect_timeout = options.socket_timeout = 500ms;
  std::optional<LockClient> brief{LockClient{lend_redis(redis_at(options)), as_new_runner()}};
  std::optional<Lock> lock = brief->acquire("lock", {.ttl = 60s}).value();
  server.pause();
  const auto began = steady_clock::now();
  lock.reset();
  brief.reset();
  EXPECT_LT(steady_clock::now() - began, 10s);
  server.resume();
}

TEST_F(LentRedis, ReplyThatDoesNotComeIsUnknownAndNoServerIsUnavailable) {
  auto options = options_for(server);
  options.connect_timeout = options.socket_timeout = 500ms;
  const auto brief = lend_redis(redis_at(options));
  server.pause();
  EXPECT_EQ(end_of([&] { call(*brief, {"SET", "late", "1"}); }), End::unknown);
  server.resume();
  server.kill();
  EXPECT_EQ(end_of([&] { call(*brief, {"PING"}); }), End::unavailable);
  server.start();
  EXPECT_EQ(end_of([&] { call(*brief, {"PING"}); }), End::answered);
}

TEST(LentRedisRefusals, WrongPasswordIsExplained) {
  const RedisServer server{RedisServerOptions{.password = "secret"}};
  const auto reason_of = [&](const std::string& password) {
    auto options = options_for(server);
    options.password = password;
    const auto link = lend_redis(redis_at(options));
    try {
      call(*link, {"PING"});
    } catch (const ServerRefused& refused) {
      EXPECT_EQ(std::string(refused.what()).find("wrong one"), std::string::npos);
      return refused.reason();
    }
    return ServerRefused::Reason::other;
  };
  EXPECT_EQ(reason_of("wrong one"), ServerRefused::Reason::authentication);
  EXPECT_EQ(reason_of(""), ServerRefused::Reason::authentication);
}

TEST(LentRedisRefusals, MissingTimeOutsAreInvalid) {
  const RedisServer server;
  auto options = options_for(server);
  options.socket_timeout = 0ms;
  EXPECT_THROW(lend_redis(redis_at(options)), InvalidArgument);
  options.socket_timeout = 1s;
  options.connect_timeout = 0ms;
  EXPECT_THROW(lend_redis(redis_at(options)), InvalidArgument);
  EXPECT_THROW(lend_redis(std::shared_ptr<sw::redis::Redis>{}), InvalidArgument);
}

TEST(LentRedisRefusals, ServerThatIsDownWhenItIsLentIsUsedLater) {
  RedisServer server;
  server.kill();
  const auto link = lend_redis(redis_at(options_for(server)));
  EXPECT_EQ(end_of([&] { call(*link, {"PING"}); }), End::unavailable);
  server.start();
  EXPECT_EQ(call(*link, {"PING"}).text, "PONG");
}

TEST(LentRedisReplicas, WriteThatAReplicaHasIsReplicated) {
  using Needed = RedisReplicas::Needed;
  const RedisServer primary;
  RedisServer replica{RedisServerOptions{
      .config_lines = {"replicaof 127.0.0.1 " + std::to_string(primary.port())}}};
  ASSERT_TRUE(eventually([&] { return missing_replication(replica, primary).empty(); }, 60s));
  const auto link = lend_redis(redis_at(options_for(primary)));
  const auto is_replicated = [&](Needed needed, std::chrono::milliseconds timeout) {
    const std::array<std::string_view, 3> words{"SET", "a", "b"};
    const RedisCommand command{words};
    const auto replies =
        link->pipeline({&command, 1}, {.replicas = {.needed = needed, .timeout = timeout}});
    EXPECT_EQ(replies.size(), 1U);
    return replies[0].replicated;
  };
  EXPECT_FALSE(is_replicated(Needed::none, 5s));
  EXPECT_TRUE(is_replicated(Needed::any, 5s));
  EXPECT_TRUE(is_replicated(Needed::majority, 5s));
  EXPECT_TRUE(is_replicated(Needed::all, 5s));
  replica.pause();
  EXPECT_FALSE(is_replicated(Needed::any, 200ms));
  replica.resume();
}

TEST(LentRedisReplicas, WithoutReplicasNothingIsReplicated) {
  const RedisServer server;
  const auto link = lend_redis(redis_at(options_for(server)));
  const std::array<std::string_view, 3> words{"SET", "a", "b"};
  const RedisCommand command{words};
  const auto replies =
      link->pipeline({&command, 1}, {.replicas = {.needed = RedisReplicas::Needed::any}});
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_FALSE(replies[0].replicated);

  auto options = as_new_runner();
  options.replicas = {.needed = RedisReplicas::Needed::majority, .timeout = 50ms};
  LockClient client{link, options};
  const auto acquire = [&] { client.acquire("lock", {.wait = 0ms}); };
  EXPECT_EQ(refusal_of(acquire, "0 of 0 replicas"), ServerRefused::Reason::no_replicas);
}

TEST(LentRedisExample, RunsAndSaysWhatItShould) {
  const RedisServer server;
  const std::string path = LEASEHOLD_EXAMPLES "/redis_plus_plus_example";
  const auto finished = run({.argv = {path, "tcp://127.0.0.1:" + std::to_string(server.port())}});
  EXPECT_TRUE(finished.status.success()) << finished.output;
  EXPECT_NE(finished.output.find("report is ours with fencing token"), std::string::npos);
  EXPECT_NE(finished.output.find("after release it is free"), std::string::npos);
  EXPECT_EQ(run({.argv = {path}}).status.code, 2);
}

}  // namespace
}  // namespace leasehold::testing
