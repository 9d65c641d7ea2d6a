// A Redis whose primary is watched by sentinels: it is killed, stopped or replaced.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "harness/certificates.hpp"
#include "harness/redis_sentinels.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/lock_clients.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/redis_keys.hpp"
#include "tests/support/test_namespace.hpp"
#include "tests/support/waiter.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;

class SentinelTest : public ::testing::Test {
 protected:
  /// As usual, but a server that has stopped is noticed sooner.
  static LockClientOptions options() {
    auto options = as_new_runner();
    options.redis.command_timeout = 1s;
    return options;
  }

  /// Waits until a lock that is acquired now is on this server.
  [[nodiscard]] ::testing::AssertionResult locks_are_kept_on(const RedisServer& server) {
    return eventually(
        [&] {
          const Lock lock = client.acquire("probe", {.wait = patience}).value();
          return key_exists(server, key_of("probe"));
        },
        patience);
  }

  RedisSentinels redis;
  LockClient client{redis.uri(), options()};
};

TEST_F(SentinelTest, LocksOutliveAPrimaryThatIsKilled) {
  Lock kept = client.acquire("kept", {.ttl = 60s}).value();
  RedisServer& old = redis.primary();
  ASSERT_TRUE(eventually([&] {
    return key_exists(redis.server(1), key_of("kept")) &&
           key_exists(redis.server(2), key_of("kept"));
  }));
  LockClient other{redis.uri(), options()};
  Waiter waiter{other, "kept", {.wait = patience}};
  ASSERT_TRUE(eventually([&] { return line_length(client, "kept") == 1; }));

  old.kill();
  const Lock later = client.acquire("another", {.wait = patience}).value();
  EXPECT_TRUE(key_exists(redis.await_primary_other_than(old.port()), key_of("another")));
  EXPECT_EQ(kept.extend(), Ownership::held);
  EXPECT_EQ(client.status("kept")->token, kept.token());
  EXPECT_EQ(kept.release(), Release::done);
  ASSERT_TRUE(waiter.got_it());
  EXPECT_GT(waiter.lock().token(), kept.token());
}

TEST_F(SentinelTest, PrimaryThatIsStartedAgainIsNotUsed) {
  RedisServer& old = redis.primary();
  client.acquire("lock").value().release();
  old.kill();
  RedisServer& next = redis.await_primary_other_than(old.port());
  old.start();
  for (int i = 0; i < 20; ++i) {
    const std::string name = "lock " + std::to_string(i);
    const Lock lock = client.acquire(name, {.wait = patience}).value();
    EXPECT_TRUE(key_exists(next, key_of(name)));
  }
}

TEST_F(SentinelTest, HolderWhoseGrantWasLostIsTold) {
  client.acquire("lock").value().release();  // from here on it listens
  RedisServer& old = redis.primary();
  // From here on the replicas cannot come back to it. Who is connected already stays so.
  old.command({"CONFIG", "SET", "requirepass", "not-for-replicas"});
  old.command({"CLIENT", "KILL", "TYPE", "replica"});
  ASSERT_TRUE(eventually([&] { return old.command({"ROLE"}).elements.at(2).elements.empty(); }));
  Lock lock = client.acquire("lost", {.ttl = 6s}).value();
  old.kill();
  EXPECT_TRUE(eventually([&] { return lock.lost().stop_requested(); }, patience));
  const Lock next = client.acquire("lost", {.wait = patience}).value();
  EXPECT_GT(next.token(), lock.token());
}

// Sentinels let the old primary accept writes for seconds after an orderly failover.
TEST_F(SentinelTest, ReplacedPrimaryIsLeftAlthoughItStillAnswers) {
  client.acquire("lock").value().release();
  const RedisServer& old = redis.primary();
  redis.fail_over();
  const RedisServer& next = redis.await_primary_other_than(old.port());
  ASSERT_TRUE(locks_are_kept_on(next));
  const Lock lock = client.acquire("lock").value();
  EXPECT_TRUE(key_exists(next, key_of("lock")));
}

// Requests that are sent before the replies to the last ones are read must not keep a client there.
TEST_F(SentinelTest, ReplacedPrimaryIsLeftByABusyClientToo) {
  std::atomic<bool> done = false;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, name = "busy " + std::to_string(i)] {
      while (!done) client.acquire(name, {.ttl = 2s, .wait = patience}).value().release();
    });
  }
  const RedisServer& old = redis.primary();
  const auto scripts = [&] {
    const std::string stats = old.command({"INFO", "commandstats"}).string;
    const std::string field = "cmdstat_evalsha:calls=";
    const auto at = stats.find(field);
    return at == std::string::npos ? 0 : std::stoll(stats.substr(at + field.size()));
  };
  ASSERT_TRUE(eventually([&] { return scripts() > 100; }, patience));
  redis.fail_over();
  const RedisServer& next = redis.await_primary_other_than(old.port());
  EXPECT_TRUE(locks_are_kept_on(next));
  EXPECT_EQ(old.command({"ROLE"}).elements.at(0).string, "master") << "it has left too late";
  EXPECT_TRUE(eventually([&, before = scripts()]() mutable {
    return std::exchange(before, scripts()) == before;
  })) << "it still works there";
  done = true;
}

TEST_F(SentinelTest, PrimaryThatHasStoppedIsReplaced) {
  client.acquire("lock").value().release();
  RedisServer& old = redis.primary();
  old.pause();
  const Lock lock = client.acquire("lock", {.wait = patience}).value();
  const RedisServer& next = redis.await_primary_other_than(old.port());
  EXPECT_TRUE(key_exists(next, key_of("lock")));
  old.resume();
  ASSERT_TRUE(locks_are_kept_on(next));
}

TEST_F(SentinelTest, WaiterHearsOnTheNewPrimary) {
  LockClient other{redis.uri(), options()};
  const RedisServer& old = redis.primary();
  redis.fail_over();
  const RedisServer& next = redis.await_primary_other_than(old.port());
  ASSERT_TRUE(locks_are_kept_on(next));
  Lock lock = client.acquire("lock").value();
  Waiter waiter{other, "lock", {.wait = patience}};
  ASSERT_TRUE(eventually([&] { return line_length(client, "lock") == 1; }));
  ASSERT_TRUE(eventually([&] {
    return next.command({"PUBSUB", "CHANNELS", "lh:client:*"}).elements.size() == 2;
  }));
  lock.release();
  EXPECT_TRUE(waiter.got_it());
}

TEST_F(SentinelTest, OneSentinelIsEnoughToFindThePrimary) {
  redis.sentinel(0).kill();
  redis.sentinel(1).pause();
  LockClient late{redis.uri(), options()};
  EXPECT_TRUE(late.acquire("lock", {.wait = patience}));
  redis.sentinel(1).resume();
}

TEST_F(SentinelTest, WithoutSentinelsNothingIsSent) {
  client.acquire("lock").value().release();
  for (int i = 0; i < RedisSentinels::sentinel_count; ++i) redis.sentinel(i).kill();
  LockClient late{redis.uri(), options()};
  const std::string message = message_of<Unavailable>([&] { late.acquire("lock", {.wait = 0ms}); });
  EXPECT_TRUE(contains(message, "no sentinel says where the primary is")) << message;
  EXPECT_TRUE(client.acquire("lock")) << "whoever is connected stays so";
}

TEST_F(SentinelTest, UnknownServiceIsNamed) {
  std::string uri = redis.uri();
  uri.replace(uri.rfind('/'), std::string::npos, "/payments");
  LockClient wrong{uri, options()};
  const std::string message = message_of<ServerRefused>([&] { wrong.acquire("lock"); });
  EXPECT_TRUE(contains(message, "does not know a service \"payments\"")) << message;
}

TEST(SentinelTlsTest, SentinelAndPrimaryAreAskedByTls) {
  harness::Certificates certificates;
  const auto& ca = certificates.authority().certificate;
  const auto own = certificates.issue();
  const RedisServer primary{{.tls = harness::RedisServerTls{.own = own, .ca = ca}}};
  const FreePort tls_port;
  const harness::RedisSentinel sentinel{
      FreePort{},
      {.config_lines = {
           "tls-port " + std::to_string(tls_port.number()),
           "tls-cert-file " + own.certificate.string(), "tls-key-file " + own.key.string(),
           "tls-ca-cert-file " + ca.string(), "tls-auth-clients no", "tls-replication yes",
           "sentinel monitor service 127.0.0.1 " + std::to_string(primary.tls_port()) + " 1"}}};
  const std::string uri =
      "rediss+sentinel://127.0.0.1:" + std::to_string(tls_port.number()) + "/service";
  LockClient client{uri + "?ca=" + ca.string(), as_new_runner()};
  const Lock lock = client.acquire("lock", {.wait = patience}).value();
  EXPECT_TRUE(key_exists(primary, key_of("lock")));

  LockClient distrustful{uri, as_new_runner()};
  const std::string message =
      message_of<Error>([&] { distrustful.acquire("lock", {.wait = 0ms}); });
  EXPECT_TRUE(contains(message, "certificate")) << message;
}

TEST(SentinelPasswordTest, ServersAndSentinelsHaveTheirOwn) {
  const RedisSentinels redis{
      {.servers = {.password = "of-servers"}, .sentinel_password = "of-sentinels"}};
  LockClient client{redis.uri(), as_new_runner()};
  EXPECT_TRUE(client.acquire("lock"));

  const auto refusal_with = [&](const std::string& right, const std::string& wrong) {
    std::string uri = redis.uri();
    uri.replace(uri.find(right), right.size(), wrong);
    LockClient refused{uri, as_new_runner()};
    try {
      refused.acquire("lock");
    } catch (const ServerRefused& error) {
      EXPECT_EQ(error.reason(), ServerRefused::Reason::authentication) << error.what();
      EXPECT_EQ(std::string(error.what()).find(wrong), std::string::npos) << error.what();
      return true;
    }
    return false;
  };
  EXPECT_TRUE(refusal_with("of-servers", "not-of-servers"));
  EXPECT_TRUE(refusal_with("of-sentinels", "not-of-sentinels"));
}

}  // namespace
}  // namespace leasehold::testing
