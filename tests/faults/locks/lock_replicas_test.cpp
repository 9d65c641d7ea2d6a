// Grants that count only once replicas have them (LockClientOptions::replicas).
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "harness/redis_replication.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/lock_clients.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/redis_keys.hpp"
#include "tests/support/refusal_of.hpp"
#include "tests/support/signal.hpp"
#include "tests/support/test_namespace.hpp"
#include "tests/support/together.hpp"
#include "tests/support/waiter.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;
using Needed = RedisReplicas::Needed;
using Reason = ServerRefused::Reason;

class ReplicasTest : public ::testing::Test {
 protected:
  static RedisServerOptions with(std::vector<std::string> lines) {
    return harness::replicated({}, std::move(lines));
  }

  static LockClientOptions options(Needed needed, std::chrono::milliseconds timeout = 300ms) {
    auto options = as_new_runner();
    options.replicas = {.needed = needed, .timeout = timeout};
    return options;
  }

  /// With a time-out that replicas which run never need.
  static LockClientOptions patient(Needed needed) { return options(needed, 5s); }

  void add_replica() {
    replicas.push_back(std::make_unique<RedisServer>(
        with({"replicaof 127.0.0.1 " + std::to_string(primary.port())})));
    ASSERT_TRUE(eventually(
        [&] { return harness::missing_replication(*replicas.back(), primary).empty(); }, patience));
  }

  /// How often the primary has run this command.
  long calls_of(const std::string& command) const {
    const std::string stats = primary.command({"INFO", "commandstats"}).string;
    const std::string label = "cmdstat_" + command + ":calls=";
    const auto found = stats.find(label);
    return found == std::string::npos ? 0 : std::stol(stats.substr(found + label.size()));
  }

  void SetUp() override { add_replica(); }

  RedisServer primary{with({})};
  std::vector<std::unique_ptr<RedisServer>> replicas;
};

TEST_F(ReplicasTest, GrantIsOnAllReplicasWhenAcquireReturns) {
  add_replica();
  LockClient client{primary.uri(), patient(Needed::all)};
  for (int i = 0; i < 20; ++i) {
    const std::string name = "lock" + std::to_string(i);
    const Lock lock = client.acquire(name, {.wait = patience}).value();
    for (const auto& replica : replicas) EXPECT_TRUE(key_exists(*replica, key_of(name)));
  }
}

TEST_F(ReplicasTest, GrantThatIsNotConfirmedIsRefusedAndGivenBack) {
  LockClient client{primary.uri(), options(Needed::all)};
  replicas[0]->pause();
  SharedLock shared{client, "shared"};
  Semaphore semaphore{client, "permits", 2};
  const auto refused = [&](auto&& acquire) {
    EXPECT_EQ(refusal_of(acquire, "0 of 1 replicas", "300 ms", "does not count"),
              Reason::no_replicas);
    expect_nothing_left(primary);
  };
  refused([&] { client.acquire("lock", {.wait = 0ms}); });
  refused([&] { client.acquire("lock", {.wait = 100ms}); });
  refused([&] { shared.read({.wait = 0ms}); });
  refused([&] { shared.write({.wait = 0ms}); });
  refused([&] { semaphore.acquire({.wait = 0ms}); });
  refused([&] { client.acquire_all({"a", "b"}, {.wait = 0ms}); });
  EXPECT_FALSE(client.status("permits"));
  replicas[0]->resume();
}

TEST_F(ReplicasTest, CancelledAcquireLeavesNothingBehind) {
  LockClient client{primary.uri(), options(Needed::all)};
  replicas[0]->pause();
  {
    Waiter waiter{client, "lock", {.wait = LockOptions::forever}};
    ASSERT_TRUE(eventually([&] { return calls_of("wait") >= 2; }, patience));
    waiter.cancel();
    EXPECT_EQ(waiter.refusal().reason, RefusalReason::cancelled);
  }
  expect_nothing_left(primary);
  replicas[0]->resume();
}

TEST_F(ReplicasTest, AcquireWithTimeToWaitSucceedsWhenTheReplicaIsBack) {
  LockClient client{primary.uri(), options(Needed::all)};
  replicas[0]->pause();
  Waiter waiter{client, "lock", {.wait = LockOptions::forever}};
  ASSERT_TRUE(eventually([&] { return calls_of("wait") >= 4; }, patience));
  replicas[0]->resume();
  ASSERT_TRUE(waiter.got_it());
  EXPECT_TRUE(key_exists(*replicas[0], key_of("lock")));
  EXPECT_EQ(waiter.lock().release(), Release::done);
  expect_nothing_left(primary);
}

TEST_F(ReplicasTest, OfferThatIsConfirmedMustBeReplicatedToo) {
  LockClient holder{primary.uri(), as_new_runner()};
  LockClient client{primary.uri(), options(Needed::all)};
  Lock held = holder.acquire("lock", {.ttl = 60s}).value();
  {
    Waiter hasty{client, "lock", {.wait = 2s}};
    ASSERT_TRUE(eventually([&] { return line_length(holder, "lock") == 1; }, patience));
    replicas[0]->pause();
    held.release();
    EXPECT_EQ(refusal_of([&] { hasty.got_it(); }, "0 of 1 replicas"), Reason::no_replicas);
  }
  expect_nothing_left(primary);
  replicas[0]->resume();
}

/// A WAIT waits for what its own connection wrote. A grant that an earlier connection wrote must
/// not pass for confirmed.
TEST_F(ReplicasTest, GrantOfAConnectionThatBrokeIsNotTakenForConfirmed) {
  LockClient client{primary.uri(), options(Needed::all)};
  replicas[0]->pause();
  Waiter waiter{client, "lock", {.ttl = 60s, .wait = 3s}};
  for (int i = 0; i < 3; ++i) {
    const long before = calls_of("wait");
    ASSERT_TRUE(eventually([&] { return calls_of("wait") > before; }, patience));
    primary.command({"CLIENT", "KILL", "TYPE", "normal"});
  }
  EXPECT_THROW(waiter.got_it(), Error);
  EXPECT_TRUE(eventually([&] { return !client.status("lock"); }, patience));
  replicas[0]->resume();
}

TEST_F(ReplicasTest, MajorityIsMoreThanHalfOfTheReplicasAndAnyIsOne) {
  add_replica();
  replicas[1]->pause();
  LockClient majority{primary.uri(), options(Needed::majority, 2s)};
  EXPECT_EQ(refusal_of([&] { majority.acquire("lock", {.wait = 0ms}); }, "1 of 2 replicas"),
            Reason::no_replicas);
  LockClient any{primary.uri(), patient(Needed::any)};
  EXPECT_EQ(any.acquire("lock", {.wait = 0ms}).value().release(), Release::done);
  replicas[1]->resume();
}

TEST_F(ReplicasTest, ReplicaThatJoinsCounts) {
  LockClient client{primary.uri(), options(Needed::all)};
  client.acquire("lock", {.wait = patience}).value().release();
  add_replica();
  replicas[1]->pause();
  EXPECT_TRUE(eventually(
      [&] {
        try {
          client.acquire("lock", {.wait = 0ms});
        } catch (const ServerRefused& refused) {
          return refused.reason() == Reason::no_replicas;
        }
        return false;
      },
      patience));
  replicas[1]->resume();
}

TEST(NoReplicasTest, EveryPolicyWantsAtLeastOne) {
  const RedisServer alone;
  for (const Needed needed : {Needed::any, Needed::majority, Needed::all}) {
    auto options = as_new_runner();
    options.replicas = {.needed = needed, .timeout = 50ms};
    LockClient client{alone.uri(), options};
    EXPECT_EQ(refusal_of([&] { client.acquire("lock", {.wait = 0ms}); }, "0 of 0 replicas"),
              Reason::no_replicas);
    expect_nothing_left(alone);
  }
}

TEST_F(ReplicasTest, DemotionDuringTheWaitIsNotTheEnd) {
  LockClient client{primary.uri(), patient(Needed::all)};
  replicas[0]->pause();
  Waiter waiter{client, "lock", {.ttl = 60s, .wait = LockOptions::forever}};
  const auto blocked = [&] {
    return contains(primary.command({"INFO", "clients"}).string, "blocked_clients:1");
  };
  ASSERT_TRUE(eventually(blocked, patience));
  const FreePort nobody;
  primary.command({"REPLICAOF", "127.0.0.1", std::to_string(nobody.number())});
  ASSERT_TRUE(eventually([&] { return !blocked(); }, patience));
  primary.command({"REPLICAOF", "NO", "ONE"});
  replicas[0]->resume();
  EXPECT_TRUE(waiter.got_it());
}

TEST_F(ReplicasTest, BusyLockIsBusyEvenIfNoReplicaAnswers) {
  LockClient holder{primary.uri(), as_new_runner()};
  LockClient client{primary.uri(), options(Needed::all)};
  const Lock held = holder.acquire("lock", {.ttl = 60s}).value();
  replicas[0]->pause();
  EXPECT_EQ(client.acquire("lock", {.wait = 0ms}).refusal().reason, RefusalReason::busy);
  replicas[0]->resume();
}

TEST_F(ReplicasTest, HeartbeatThatIsNotConfirmedDoesNotProlongTrust) {
  LockClient client{primary.uri(), options(Needed::all, 100ms)};
  Lock lock = client.acquire("lock", {.ttl = 3s, .wait = patience}).value();
  replicas[0]->pause();
  const auto trusted = lock.valid_until();
  EXPECT_EQ(lock.extend(), Ownership::unknown);
  ASSERT_TRUE(wait_for_stop(lock.lost()));
  EXPECT_EQ(lock.loss_reason(), LossReason::expired);
  // Converted from another clock each time.
  EXPECT_LT(lock.valid_until(), trusted + 100ms);
  EXPECT_FALSE(lock.valid());
  EXPECT_TRUE(eventually([&] { return !client.status("lock"); }, patience));
  replicas[0]->resume();
}

TEST_F(ReplicasTest, DowngradeThatIsNotConfirmedIsUnknown) {
  LockClient client{primary.uri(), options(Needed::all)};
  SharedLock shared{client, "lock"};
  Lock lock = shared.write({.ttl = 60s, .wait = patience}).value();
  replicas[0]->pause();
  EXPECT_EQ(lock.downgrade(), Ownership::unknown);
  EXPECT_EQ(lock.downgrade(), Ownership::unknown);
  replicas[0]->resume();
  EXPECT_TRUE(eventually([&] { return lock.downgrade() == Ownership::held; }, patience));
}

TEST_F(ReplicasTest, ThreadsShareOneWait) {
  LockClient client{primary.uri(), patient(Needed::all)};
  constexpr int threads = 32;
  constexpr int grants = 50;
  together(threads, [&](int i) {
    for (int n = 0; n < grants; ++n) {
      client.acquire("lock" + std::to_string(i), {.wait = patience}).value().release();
    }
  });
  EXPECT_LT(calls_of("wait"), threads * grants / 3);
  RecordProperty("waits", std::to_string(calls_of("wait")));
}

TEST_F(ReplicasTest, GrantOutlivesAPrimaryThatIsKilledRightAfter) {
  for (int i = 0; i < 8; ++i) {
    if (i > 0) {
      primary.start();
      ASSERT_TRUE(eventually(
          [&] { return harness::missing_replication(*replicas[0], primary).empty(); }, patience));
    }
    LockClient client{primary.uri(), patient(Needed::all)};
    const std::string name = "lock" + std::to_string(i);
    const Lock lock = client.acquire(name, {.ttl = 60s, .wait = patience}).value();
    primary.kill();
    ASSERT_TRUE(key_exists(*replicas[0], key_of(name))) << i;
  }
}

TEST_F(ReplicasTest, ServerThatCannotSayIsAnErrorAtOnce) {
  auto on_disk = options(Needed::all);
  on_disk.replicas.until = RedisReplicas::Until::on_disk;
  LockClient client{primary.uri(), on_disk};
  // Unknown before Redis 7.2; later ones want appendonly.
  EXPECT_EQ(refusal_of([&] { client.acquire("lock", {.wait = LockOptions::forever}); }, "WAITAOF"),
            Reason::other);
  expect_nothing_left(primary);

  primary.command({"ACL", "SETUSER", "default", "-wait"});
  LockClient forbidden{primary.uri(), options(Needed::all)};
  EXPECT_EQ(refusal_of([&] { forbidden.acquire("lock", {.wait = LockOptions::forever}); }, "wait"),
            Reason::permission);
  primary.command({"ACL", "SETUSER", "default", "+wait", "-role"});
  LockClient without_role{primary.uri(), options(Needed::majority)};
  EXPECT_EQ(refusal_of([&] { without_role.acquire("lock", {.wait = 0ms}); }, "role"),
            Reason::permission);
  expect_nothing_left(primary);
}

// On Redis 7.2 and later. Before that the server does not know the command.
TEST_F(ReplicasTest, GrantIsOnDiskWhereTheServerCanSayThat) {
  for (const RedisServer* server : {&primary, replicas[0].get()}) {
    server->command({"CONFIG", "SET", "appendonly", "yes"});
    ASSERT_TRUE(eventually(
        [&] {
          return contains(server->command({"INFO", "persistence"}).string,
                          "aof_rewrite_in_progress:0");
        },
        patience));
  }
  auto on_disk = patient(Needed::all);
  on_disk.replicas.until = RedisReplicas::Until::on_disk;
  LockClient client{primary.uri(), on_disk};
  const auto acquire = [&] { return client.acquire("lock", {.wait = 0ms}); };
  if (primary.command({"COMMAND", "INFO", "waitaof"}).elements.at(0).elements.empty()) {
    EXPECT_EQ(refusal_of(acquire, "WAITAOF"), Reason::other);
    return;
  }
  EXPECT_EQ(acquire().value().release(), Release::done);
  replicas[0]->pause();
  on_disk.replicas.timeout = 200ms;
  LockClient hasty{primary.uri(), on_disk};
  EXPECT_EQ(refusal_of([&] { hasty.acquire("lock", {.wait = 0ms}); }, "0 of 1 replicas"),
            Reason::no_replicas);
  replicas[0]->resume();
}

TEST_F(ReplicasTest, ServerThatWantsReplicasItselfIsTriedAgain) {
  LockClient client{primary.uri(), as_new_runner()};
  primary.command({"CONFIG", "SET", "min-replicas-to-write", "2"});
  EXPECT_EQ(refusal_of([&] { client.acquire("lock", {.wait = 0ms}); }, "min-replicas-to-write"),
            Reason::no_replicas);
  Waiter waiter{client, "lock", {.wait = LockOptions::forever}};
  const auto refusals = [&] {
    const std::string stats = primary.command({"INFO", "errorstats"}).string;
    const std::string label = "errorstat_NOREPLICAS:count=";
    const auto found = stats.find(label);
    return found == std::string::npos ? 0 : std::stol(stats.substr(found + label.size()));
  };
  ASSERT_TRUE(eventually([&] { return refusals() >= 2; }, patience));
  add_replica();
  EXPECT_TRUE(waiter.got_it());
}

TEST_F(ReplicasTest, OptionsAreChecked) {
  const auto message = [&](const std::string& uri, std::chrono::milliseconds timeout) {
    return message_of<InvalidArgument>([&] { LockClient{uri, options(Needed::any, timeout)}; });
  };
  EXPECT_TRUE(contains(message(primary.uri(), 0ms), "replicas.timeout must be 1 ms to 5 s"));
  EXPECT_TRUE(contains(message(primary.uri(), 5001ms), "replicas.timeout must be 1 ms to 5 s"));
  EXPECT_TRUE(contains(message("sqlite::memory:", 1s), "replicas"));
}

}  // namespace
}  // namespace leasehold::testing
