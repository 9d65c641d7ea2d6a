// A Redis Cluster whose nodes are killed or stopped, and whose slots move.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "harness/certificates.hpp"
#include "harness/redis_cluster.hpp"
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

using namespace std::chrono_literals;

class ClusterTest : public ::testing::Test {
 protected:
  static LockClientOptions options() {
    auto options = as_new_runner();
    options.redis.command_timeout = 1s;
    return options;
  }

  /// A name whose lock is kept on this node.
  std::string name_on(const RedisServer& node, const std::string& begin = "lock") const {
    for (int i = 0;; ++i) {
      std::string name = begin + " " + std::to_string(i);
      if (&redis.primary_of(key_of(name)) == &node) return name;
    }
  }

  RedisCluster redis;
  LockClient client{redis.uri(), options()};
};

TEST_F(ClusterTest, PlainUriSaysThatItIsACluster) {
  LockClient plain{redis.node(0).uri(), options()};
  for (int i = 0; i < RedisCluster::primary_count; ++i) {
    const std::string name = name_on(redis.node(i));
    const std::string message = message_of<ServerRefused>([&] { plain.acquire(name); });
    EXPECT_TRUE(contains(message, "is a node of a Redis Cluster")) << message;
    EXPECT_TRUE(contains(message, "redis+cluster://")) << message;
  }
}

TEST_F(ClusterTest, ServerThatIsNoClusterSaysSo) {
  const RedisServer server;
  LockClient wrong{"redis+cluster://127.0.0.1:" + std::to_string(server.port()), options()};
  const std::string message = message_of<ServerRefused>([&] { wrong.acquire("lock"); });
  EXPECT_TRUE(contains(message, "is not a node of a Redis Cluster")) << message;
}

TEST_F(ClusterTest, OneNodeThatAnswersIsEnoughToFindTheOthers) {
  const FreePort nobody;
  LockClient late{"redis+cluster://127.0.0.1:" + std::to_string(nobody.number()) +
                      ",127.0.0.1:" + std::to_string(redis.node(1).port()),
                  options()};
  for (int i = 0; i < RedisCluster::primary_count; ++i) {
    EXPECT_TRUE(late.acquire(name_on(redis.node(i))));
  }
}

TEST_F(ClusterTest, ClusterThatDoesNotAnswerIsUnavailable) {
  const FreePort nobody;
  LockClient lost{"redis+cluster://127.0.0.1:" + std::to_string(nobody.number()), options()};
  const std::string message = message_of<Unavailable>([&] { lost.acquire("lock", {.wait = 0ms}); });
  EXPECT_TRUE(contains(message, "no node says where the keys are")) << message;
}

TEST_F(ClusterTest, LocksOfAllNodesAreSeen) {
  std::vector<std::string> names;
  std::vector<Lock> locks;
  for (int i = 0; i < 60; ++i) {
    names.push_back("seen " + std::to_string(i));
    locks.push_back(client.acquire(names.back()).value());
  }
  for (int i = 0; i < RedisCluster::primary_count; ++i) {
    EXPECT_GT(redis.node(i).command({"DBSIZE"}).integer, 0) << "node " << i;
  }
  std::sort(names.begin(), names.end());
  std::vector<std::string> listed;
  for (const LockRecord& record : client.list("seen *")) listed.push_back(record.name);
  EXPECT_EQ(listed, names);
  EXPECT_EQ(client.stats(StatsScope::store).census->mine, names.size());
}

TEST_F(ClusterTest, ScriptsAreLoadedWhereTheyAreMissing) {
  std::vector<std::string> names;
  for (int i = 0; i < RedisCluster::primary_count; ++i) names.push_back(name_on(redis.node(i)));
  client.acquire_all(names).value().release();
  redis.command({"SCRIPT", "FLUSH"});
  EXPECT_TRUE(client.acquire_all(names));
  redis.node(1).command({"SCRIPT", "FLUSH"});
  EXPECT_TRUE(client.acquire_all(names));
}

TEST_F(ClusterTest, AllOfSeveralNodesOrNone) {
  std::vector<std::string> names;
  for (int i = 0; i < RedisCluster::primary_count; ++i) names.push_back(name_on(redis.node(i)));
  {
    const Lock busy = client.acquire(names[1]).value();
    EXPECT_FALSE(client.acquire_all(names, {.wait = 0ms}));
    EXPECT_FALSE(client.status(names[0]));
    EXPECT_FALSE(client.status(names[2]));
  }
  auto all = client.acquire_all(names).value();
  for (const std::string& name : names) EXPECT_TRUE(client.status(name));
}

TEST_F(ClusterTest, LocksOutliveAPrimaryThatIsKilled) {
  const std::string name = name_on(redis.node(0));
  Lock kept = client.acquire(name, {.ttl = 60s}).value();
  redis.node(3).command({"READONLY"});
  ASSERT_TRUE(eventually([&] { return redis.node(3).command({"DBSIZE"}).integer == 2; }, patience));
  LockClient other{redis.uri(), options()};
  Waiter waiter{other, name, {.wait = long_patience}};
  ASSERT_TRUE(eventually([&] { return line_length(client, name) == 1; }, patience));

  redis.node(0).kill();
  const std::string next_name = name_on(redis.await_takeover(0), "another");
  EXPECT_TRUE(client.acquire(next_name, {.wait = long_patience}));
  EXPECT_TRUE(eventually([&] { return kept.extend() == Ownership::held; }, patience));
  EXPECT_EQ(client.status(name)->token, kept.token());
  EXPECT_EQ(kept.release(), Release::done);
  ASSERT_TRUE(waiter.got_it());
  EXPECT_GT(waiter.lock().token(), kept.token());
}

TEST_F(ClusterTest, LocksWorkAgainByThemselvesAfterAKill) {
  const std::string name = name_on(redis.node(2));
  const FencingToken before = client.acquire(name).value().token();
  redis.node(2).kill();
  const Lock lock = client.acquire(name, {.ttl = 60s, .wait = long_patience}).value();
  EXPECT_GT(lock.token(), before);
  EXPECT_EQ(&redis.primary_of(key_of(name)), &redis.node(5));
}

TEST_F(ClusterTest, HolderWhoseGrantWasLostIsTold) {
  const std::string name = name_on(redis.node(1));
  client.acquire(name).value().release();  // from here on it listens
  // From here on the replica cannot come back to it. Who is connected already stays so.
  redis.node(1).command({"CONFIG", "SET", "requirepass", "not-for-replicas"});
  redis.node(1).command({"CLIENT", "KILL", "TYPE", "replica"});
  ASSERT_TRUE(eventually(
      [&] { return redis.node(1).command({"ROLE"}).elements.at(2).elements.empty(); }, patience));
  Lock lock = client.acquire(name, {.ttl = 10s}).value();
  redis.node(1).kill();
  EXPECT_TRUE(eventually([&] { return lock.lost().stop_requested(); }, patience));
  const Lock next = client.acquire(name, {.wait = long_patience}).value();
  EXPECT_GT(next.token(), lock.token());
}

// A node that hangs lets every call for it wait. Those for the others must not feel it.
TEST_F(ClusterTest, NodeThatHangsDoesNotDisturbTheOthers) {
  // Each connection to it would take this long.
  auto slow = options();
  slow.redis.connect_timeout = 20s;
  LockClient patient{redis.uri(), slow};
  const std::string on_it = name_on(redis.node(0));
  const std::string elsewhere = name_on(redis.node(1));
  const Lock hangs = patient.acquire(on_it, {.ttl = 60s, .heartbeat_every = 100ms}).value();
  const Lock lives = patient.acquire(elsewhere, {.ttl = 8s, .heartbeat_every = 200ms}).value();
  redis.node(0).pause();
  const auto renewals = [&] { return patient.stats().heartbeats; };
  const std::string busy = name_on(redis.node(2));
  ASSERT_TRUE(eventually(
      [&, begin = renewals()] {
        patient.acquire(busy).value().release();  // does not wait for anybody: throws if it had to
        return renewals() > begin + 30;           // of 6 s, if no heartbeat is late
      },
      patience));
  EXPECT_FALSE(lives.lost().stop_requested());
  redis.node(0).resume();
  EXPECT_TRUE(patient.acquire(name_on(redis.node(1), "late")));
}

TEST_F(ClusterTest, SlotMovesUnderHoldersAndWaiters) {
  const std::string name = name_on(redis.node(0));
  const int slot = RedisCluster::slot_of(key_of(name));
  Lock held = client.acquire(name, {.ttl = 60s, .heartbeat_every = 50ms}).value();
  LockClient other{redis.uri(), options()};
  Waiter waiter{other, name, {.wait = patience}};
  ASSERT_TRUE(eventually([&] { return line_length(client, name) == 1; }, patience));

  redis.move_slot(slot, redis.node(0), redis.node(1), [&](SlotMove) {
    EXPECT_EQ(held.extend(), Ownership::held);  // a single key is found wherever it is
  });
  EXPECT_EQ(held.extend(), Ownership::held);
  EXPECT_EQ(held.release(), Release::done);
  ASSERT_TRUE(waiter.got_it());
  EXPECT_GT(waiter.lock().token(), held.token());
  waiter.release();
  EXPECT_EQ(&redis.primary_of(key_of(name)), &redis.node(1));
}

// Every lock moves to and fro while many want it: each has one holder at a time, in the order of
// its tokens, and nobody is left waiting.
TEST_F(ClusterTest, SlotsMoveUnderLoad) {
  constexpr int locks = 4;
  constexpr int threads = 12;
  std::vector<std::string> names;
  for (int i = 0; i < locks; ++i) {
    names.push_back(name_on(redis.node(0), "load " + std::to_string(i)));
  }
  std::vector<LockClient> clients;
  for (int i = 0; i < 3; ++i) clients.emplace_back(redis.uri(), options());
  std::vector<std::atomic<int>> holders(locks);
  std::vector<std::uint64_t> tokens(locks);  // by the lock itself
  std::atomic<int> done{0};
  std::atomic<bool> stop{false};
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i) {
      workers.emplace_back([&, i] {
        const auto which = static_cast<std::size_t>(i % locks);
        while (!stop) {
          auto lock = clients[static_cast<std::size_t>(i) % clients.size()].acquire(
              names[which], {.ttl = 30s, .wait = patience});
          ASSERT_TRUE(lock) << "was left waiting";
          EXPECT_EQ(++holders[which], 1);
          EXPECT_GT(lock->token().value, tokens[which]);
          tokens[which] = lock->token().value;
          EXPECT_FALSE(lock->lost().stop_requested());
          --holders[which];
          ++done;
        }
      });
    }
    const RedisServer* from = &redis.node(0);
    const RedisServer* to = &redis.node(1);
    for (int round = 0; round < 4; ++round) {
      for (const std::string& name : names) {
        redis.move_slot(RedisCluster::slot_of(key_of(name)), *from, *to);
      }
      EXPECT_TRUE(
          eventually([&, before = done.load()] { return done > before + 2 * threads; }, patience));
      std::swap(from, to);
    }
    stop = true;
  }
  for (const std::string& name : names) EXPECT_FALSE(client.status(name));
}

// Heartbeats of one node would come too late if they were sent together with those of another.
TEST_F(ClusterTest, LockWithAShortTtlOutlivesANodeThatHangs) {
  auto patient_options = options();
  patient_options.redis.connect_timeout = patient_options.redis.command_timeout = 20s;
  LockClient patient{redis.uri(), patient_options};
  const Lock hangs =
      patient.acquire(name_on(redis.node(0)), {.ttl = 60s, .heartbeat_every = 50ms}).value();
  const Lock lives = patient.acquire(name_on(redis.node(1)), {.ttl = 2s}).value();
  redis.node(0).pause();
  const auto trusted = lives.valid_until();
  EXPECT_TRUE(eventually([&] { return lives.valid_until() > trusted + 6s; }, patience));
  EXPECT_FALSE(lives.lost().stop_requested());
  redis.node(0).resume();
}

TEST_F(ClusterTest, SetOfLocksThatANodeDoesNotAnswerIsTakenBack) {
  std::vector<std::string> names;
  for (int i = 0; i < RedisCluster::primary_count; ++i) names.push_back(name_on(redis.node(i)));
  client.acquire_all(names).value().release();
  redis.node(0).pause();
  EXPECT_THROW(client.acquire_all(names, {.ttl = 60s, .wait = 0ms}), Error);
  LockClient other{redis.uri(), options()};
  for (const int i : {1, 2}) {
    EXPECT_TRUE(
        eventually([&] { return !other.status(names[static_cast<std::size_t>(i)]); }, patience));
  }
  redis.node(0).resume();
}

TEST_F(ClusterTest, RefusalOfSeveralNodesIsToldAsSuch) {
  std::vector<std::string> names;
  for (int i = 0; i < RedisCluster::primary_count; ++i) names.push_back(name_on(redis.node(i)));
  client.acquire_all(names).value().release();
  for (int i = 0; i < RedisCluster::primary_count; ++i) {
    redis.node(i).command({"CONFIG", "SET", "requirepass", "new"});
    redis.node(i).command({"CLIENT", "KILL", "TYPE", "normal"});
  }
  const auto is_refused = [&](const std::string& name) {
    return end_of([&] { client.status(name); }) == End::refused;
  };
  for (const std::string& name : names) {
    ASSERT_TRUE(eventually([&] { return is_refused(name); }, patience));
  }
  const auto acquire = [&] { client.acquire_all(names, {.wait = LockOptions::forever}); };
  EXPECT_EQ(refusal_of(acquire, "password"), ServerRefused::Reason::authentication);
}

TEST_F(ClusterTest, DestructorEndsThoughNoNodeAnswers) {
  auto slow = options();
  slow.redis.connect_timeout = 5s;
  std::optional<LockClient> stuck{LockClient{redis.uri(), slow}};
  std::vector<std::string> names;
  for (int i = 0; i < RedisCluster::primary_count; ++i) names.push_back(name_on(redis.node(i)));
  stuck->acquire_all(names).value().release();
  for (int i = 0; i < RedisCluster::node_count; ++i) redis.node(i).pause();
  for (const std::string& name : names) EXPECT_THROW(stuck->acquire(name, {.wait = 0ms}), Error);
  const auto begin = std::chrono::steady_clock::now();
  stuck.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 3 * slow.redis.connect_timeout + 2s);
  for (int i = 0; i < RedisCluster::node_count; ++i) redis.node(i).resume();
}

// As docs/locks.md has it: lock_acl_test shows that the rest is enough.
TEST_F(ClusterTest, DocumentedPermissionsAreEnough) {
  const std::vector<std::string> rule{"ACL",      "SETUSER",        "app",           "on",
                                      ">secret",  "~lh:*",          "resetchannels", "&lh:client:*",
                                      "+@all",    "-@connection",   "+ping",         "+select",
                                      "-cluster", "+cluster|slots", "-asking"};
  redis.command(rule);
  std::string uri = redis.uri();
  uri.insert(uri.find("://") + 3, "app:secret@");
  LockClient restricted{uri, options()};
  const std::string name = name_on(redis.node(0));
  Lock lock = restricted.acquire(name, {.ttl = 60s}).value();
  redis.command({"ACL", "SETUSER", "app", "+asking"});
  redis.move_slot(RedisCluster::slot_of(key_of(name)), redis.node(0), redis.node(1),
                  [&](SlotMove) { EXPECT_EQ(lock.extend(), Ownership::held); });
  EXPECT_EQ(lock.release(), Release::done);
}

// One node has all slots. Over TLS it names its TLS port, which is the only one that is used.
TEST(ClusterTlsTest, LocksAreTakenAndHandedOverByTls) {
  harness::Certificates certificates;
  const auto& ca = certificates.authority().certificate;
  const FreePort bus;
  const RedisServer redis{
      {.config_lines = {"cluster-enabled yes", "cluster-port " + std::to_string(bus.number()),
                        "tls-cluster yes"},
       .tls = harness::RedisServerTls{.own = certificates.issue(), .ca = ca}}};
  ASSERT_EQ(redis.command({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"}).string, "OK");
  const std::string uri = "rediss+cluster://127.0.0.1:" + std::to_string(redis.tls_port());
  LockClient client{uri + "?ca=" + ca.string(), as_new_runner()};
  LockClient other{uri + "?ca=" + ca.string(), as_new_runner()};
  Lock lock = client.acquire("lock", {.ttl = 60s, .wait = patience}).value();
  Waiter waiter{other, "lock", {.wait = patience}};
  ASSERT_TRUE(eventually([&] { return line_length(client, "lock") == 1; }, patience));
  EXPECT_EQ(lock.release(), Release::done);
  EXPECT_TRUE(waiter.got_it());

  LockClient distrustful{uri, as_new_runner()};
  const auto acquire = [&] { distrustful.acquire("lock", {.wait = 0ms}); };
  EXPECT_EQ(refusal_of(acquire, "certificate"), ServerRefused::Reason::certificate);
}

TEST(ClusterPasswordTest, NodesHaveOne) {
  const RedisCluster redis{{.servers = {.password = "of-nodes"}}};
  LockClient client{redis.uri(), as_new_runner()};
  EXPECT_TRUE(client.acquire("lock"));
  std::string uri = redis.uri();
  uri.replace(uri.find("of-nodes"), 8, "not-of-nodes");
  LockClient wrong{uri, as_new_runner()};
  try {
    wrong.acquire("lock");
    ADD_FAILURE() << "was let in";
  } catch (const ServerRefused& error) {
    EXPECT_EQ(error.reason(), ServerRefused::Reason::authentication) << error.what();
    EXPECT_EQ(std::string(error.what()).find("not-of-nodes"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace leasehold::testing
