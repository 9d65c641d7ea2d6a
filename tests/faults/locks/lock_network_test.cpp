// A Redis that is slow, away or forgetful, and keys that others overwrite.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "tests/support/lock_network_fixture.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Then = FaultProxy::Then;

// --- Latency (L1) ------------------------------------------------------------------------------

TEST_F(LockNetworkTest, LatencyShortensTrust) {
  constexpr auto ttl = 6s;
  constexpr auto round_trip = 400ms;
  proxy.set_delay(round_trip / 2);
  Lock lock = client->acquire("lock", {.ttl = ttl}).value();
  // The request left a round trip ago at the latest.
  const auto expect_counted_from_sending = [&] {
    const auto trusted_until = lock.valid_until();
    EXPECT_LT(trusted_until, steady_clock::now() - round_trip + ttl);
    expect_trust_ends_before_the_servers(lock);
  };
  expect_counted_from_sending();
  EXPECT_TRUE(eventually([&] { return lock.extend() == Ownership::held; }));
  expect_counted_from_sending();
  const auto beats = events->count(LockEventType::heartbeat);
  EXPECT_TRUE(events->wait_for(LockEventType::heartbeat, beats + 1));
  // The event comes once trust was prolonged.
  expect_counted_from_sending();
}

TEST_F(LockNetworkTest, GrantThatComesTooLateToBeTrustedIsGivenBack) {
  proxy.set_delay(100ms);
  for (const auto wait : {0ms, 500ms}) {
    try {
      client->acquire("lock", {.ttl = 100ms, .wait = wait});
      FAIL() << "trusted";
    } catch (const Unavailable& error) {
      EXPECT_NE(std::string{error.what()}.find("100 ms"), std::string::npos) << error.what();
    }
    EXPECT_TRUE(eventually([&] { return !is_locked(); }));
  }
  EXPECT_EQ(client->stats().held, 0U);
}

/// A link on which the first grant of a lock arrives late.
class LateLink final : public RedisLink {
 public:
  LateLink(const std::string& uri, milliseconds delay)
      : link_(connect_redis(uri, {.command_timeout = 10s})), delay_(delay) {}

  std::vector<leasehold::RedisReply> pipeline(std::span<const RedisCommand> commands,
                                              const RedisCall& how) override {
    auto replies = link_->pipeline(commands, how);
    const bool granted = replies.front().type == leasehold::RedisReply::Type::integer;
    if (granted && !delayed_.exchange(true)) std::this_thread::sleep_for(delay_);
    return replies;
  }
  std::string where() const override { return link_->where(); }

 private:
  const std::shared_ptr<RedisLink> link_;
  const milliseconds delay_;
  std::atomic<bool> delayed_ = false;
};

TEST_F(LockNetworkTest, GrantAfterOneThatCameTooLateIsANewOne) {
  LockClient late{std::make_shared<LateLink>(redis.uri(), 600ms), as_new_runner()};
  Lock lock = late.acquire("lock", {.ttl = 500ms, .heartbeat = Heartbeat::manual, .wait = patience})
                  .value();
  // What is left of the first one on the server is not what is trusted now.
  expect_trust_ends_before_the_servers(lock);
  EXPECT_GT(lock.token().value, before.value + 1);
  lock.release();
  EXPECT_TRUE(eventually([&] {
    outside.cleanup_stale();
    return !is_locked();
  }));
}

/// A link on which a renewal reaches Redis only after the loss of its lock.
class HeldUpLink final : public RedisLink {
 public:
  explicit HeldUpLink(const std::string& uri)
      : link_(connect_redis(uri, {.command_timeout = 10s})) {}

  std::vector<leasehold::RedisReply> pipeline(std::span<const RedisCommand> commands,
                                              const RedisCall& how) override {
    for (const std::string_view word : commands.front()) {
      if (word.find("\"renewals\":1") == std::string_view::npos) continue;
      EXPECT_TRUE(wait_for_stop(lost));
      renewed = true;
    }
    return link_->pipeline(commands, how);
  }
  std::string where() const override { return link_->where(); }

  std::stop_token lost;
  bool renewed = false;

 private:
  const std::shared_ptr<RedisLink> link_;
};

TEST_F(LockNetworkTest, ExtendThatSucceedsAfterTheLossIsTakenBack) {
  const auto link = std::make_shared<HeldUpLink>(redis.uri());
  LockClient held_up{link, as_new_runner()};
  // A machine that stands still before the call can spoil one try, but not all of them.
  for (int i = 0; i < 5 && !link->renewed; ++i) {
    Lock lock =
        held_up.acquire("lock", {.ttl = 1s, .heartbeat = Heartbeat::manual, .wait = patience})
            .value();
    link->lost = lock.lost();
    EXPECT_EQ(lock.extend(), Ownership::lost);
    EXPECT_EQ(lock.loss_reason(), LossReason::expired);
  }
  ASSERT_TRUE(link->renewed);
  EXPECT_TRUE(eventually([&] { return !is_locked(); }));
}

/// A link that fails as it is told.
class FailingLink final : public RedisLink {
 public:
  using Call = std::function<std::vector<leasehold::RedisReply>()>;

  explicit FailingLink(const std::string& uri)
      : link_(connect_redis(uri, {.command_timeout = 10s})) {}

  /// `fault` gets each call, and its number from 1 on. Until end().
  void begin(std::function<std::vector<leasehold::RedisReply>(int number, const Call&)> fault) {
    const std::lock_guard guard(mutex_);
    fault_ = std::move(fault);
    calls_ = 0;
  }
  void end() { begin(nullptr); }

  std::vector<leasehold::RedisReply> pipeline(std::span<const RedisCommand> commands,
                                              const RedisCall& how) override {
    const auto call = [&] { return link_->pipeline(commands, how); };
    const std::lock_guard guard(mutex_);
    return fault_ ? fault_(++calls_, call) : call();
  }
  std::string where() const override { return link_->where(); }

 private:
  const std::shared_ptr<RedisLink> link_;
  std::mutex mutex_;
  std::function<std::vector<leasehold::RedisReply>(int, const Call&)> fault_;  // by mutex_
  int calls_ = 0;                                                              // by mutex_
};

std::vector<leasehold::RedisReply> error_reply(const std::string& text) {
  return {{.type = leasehold::RedisReply::Type::error, .text = text}};
}

// B1: nothing was granted, and nobody has to think that something might have been.
TEST_F(LockNetworkTest, RefusalBeforeRedisIsAwayIsNotInDoubt) {
  const auto link = std::make_shared<FailingLink>(redis.uri());
  LockClient failing{link, as_new_runner()};
  std::atomic<int> calls = 0;  // the janitor calls too
  link->begin([&](int number, const auto&) {
    calls = number;
    if (number == 1) return error_reply("LOADING Redis is loading the dataset in memory");
    throw Unavailable("away");
  });
  // A machine that stands still can spoil one try, but not all of them.
  for (int i = 0; i < 5 && calls < 2; ++i) {
    try {
      failing.acquire("lock", {.wait = 1s});
      ADD_FAILURE() << "granted";
    } catch (const ServerRefused&) {
    } catch (const Unavailable&) {
      EXPECT_GE(calls, 2);
    }
  }
  EXPECT_GE(calls, 2);
  link->end();
}

// B1: the attempt whose reply was lost may have been granted, whatever is said of later ones.
TEST_F(LockNetworkTest, RefusalAfterALostReplyIsInDoubt) {
  const auto link = std::make_shared<FailingLink>(redis.uri());
  LockClient failing{link, as_new_runner()};
  link->begin([&](int number, const auto& call) {
    if (number == 1) {
      call();
      throw OutcomeUnknown("lost");
    }
    return number == 2 ? error_reply("READONLY You can't write against a read only replica.")
                       : call();
  });
  EXPECT_THROW(failing.acquire("lock", {.on_conflict = OnConflict::fail_fast}), OutcomeUnknown);
  EXPECT_FALSE(is_locked()) << "not taken back";
  link->end();
}

// --- Redis is away -----------------------------------------------------------------------------

TEST_F(LockNetworkTest, RedisStoppedForLessThanTheTtlLosesNothing) {
  repeat_if_stalled(1s, [&] {
    const auto failed = events->count(LockEventType::heartbeat_failed);
    Lock lock = client->acquire("lock", {.ttl = 6s}).value();
    redis.pause();
    EXPECT_TRUE(events->wait_for(LockEventType::heartbeat_failed, failed + 1));
    EXPECT_TRUE(lock.valid());
    redis.resume();
    const auto beats = events->count(LockEventType::heartbeat);
    EXPECT_TRUE(events->wait_for(LockEventType::heartbeat, beats + 1));
    EXPECT_TRUE(lock.valid());
    EXPECT_FALSE(lock.lost().stop_requested());
    EXPECT_EQ(lock.release(), Release::done);
  });
}

TEST_F(LockNetworkTest, RedisStoppedForLongerIsALossThatIsAnnouncedBeforeTrustEnds) {
  // A machine that stands still at the wrong moment can spoil one try, but not all of them.
  bool in_time = false;
  for (int i = 0; i < 5 && !in_time; ++i) {
    Lock lock = client->acquire("lock", {.ttl = 2s, .wait = patience}).value();
    redis.pause();
    std::atomic<steady_clock::time_point> fired_at{steady_clock::time_point::max()};
    const Signal fired;
    const std::stop_callback note{lock.lost(), [&, fired] {
                                    fired_at = steady_clock::now();
                                    fired.set();
                                  }};
    ASSERT_TRUE(fired.wait());
    EXPECT_FALSE(lock.valid());
    EXPECT_EQ(lock.loss_reason(), LossReason::expired);
    in_time = fired_at.load() < lock.valid_until();
    redis.resume();
    EXPECT_EQ(lock.release(), Release::was_lost);
    EXPECT_EQ(lock.extend(), Ownership::lost);
  }
  EXPECT_TRUE(in_time);
  EXPECT_TRUE(eventually([&] {
    outside.cleanup_stale();
    return !is_locked();
  }));
}

TEST_F(LockNetworkTest, ReleaseWhileRedisIsAwayHappensWhenItIsBack) {
  Lock lock = client->acquire("lock").value();
  proxy.refuse(true);
  proxy.cut();
  EXPECT_EQ(lock.release(), Release::unknown);
  EXPECT_FALSE(lock.valid());
  EXPECT_TRUE(is_locked());
  proxy.refuse(false);
  EXPECT_TRUE(eventually([&] { return !is_locked(); }));
}

TEST_F(LockNetworkTest, LockIsGotOnceRedisIsBack) {
  proxy.refuse(true);
  proxy.cut();
  EXPECT_THROW(client->acquire("lock", {.wait = 0ms}), Unavailable);
  auto acquiring = std::async(std::launch::async,
                              [&] { return client->acquire("lock", {.wait = patience}).value(); });
  EXPECT_EQ(acquiring.wait_for(50ms), std::future_status::timeout);
  proxy.refuse(false);
  EXPECT_TRUE(acquiring.get().valid());
}

TEST_F(LockNetworkTest, DestructorNeverBlocksForLong) {
  const auto start = steady_clock::now();
  {
    const Lock lock = client->acquire("lock", {.ttl = 20s}).value();
    proxy.blackhole(true);
  }
  // One time-out of 1 s, and a connection that is not made within 2 s.
  EXPECT_LT(steady_clock::now() - start, 10s);
  proxy.blackhole(false);
  EXPECT_TRUE(eventually([&] { return !is_locked(); }, patience));
}

// --- Redis forgets, and others overwrite the key (L3, L4) --------------------------------------

TEST_F(LockNetworkTest, RedisRestartedWithoutDataIsALoss) {
  Lock lock = client->acquire("lock", {.ttl = 6s}).value();
  redis.restart(Data::lost);
  EXPECT_TRUE(wait_for_stop(lock.lost()));
  EXPECT_EQ(lock.loss_reason(), LossReason::vanished);
  EXPECT_FALSE(lock.valid());
  EXPECT_FALSE(is_locked()) << "taken again silently";
  EXPECT_EQ(lock.release(), Release::was_lost);
  EXPECT_GT(client->acquire("lock", {.wait = patience})->token(), lock.token());
}

TEST_F(LockNetworkTest, RedisRestartedWithDataIsNoLoss) {
  repeat_if_stalled(1s, [&] {
    Lock lock = client->acquire("lock", {.ttl = 6s}).value();
    redis.restart(Data::kept);
    const auto beats = events->count(LockEventType::heartbeat);
    EXPECT_TRUE(events->wait_for(LockEventType::heartbeat, beats + 1));
    EXPECT_TRUE(lock.valid());
    EXPECT_EQ(lock.release(), Release::done);
  });
}

TEST_F(LockNetworkTest, KeyOverwrittenFromOutsideTellsTheHolderAndIsLeftAlone) {
  Lock lock = client->acquire("lock", {.ttl = 6s}).value();
  redis.command({"SET", key_of("lock"), "somebody else"});
  EXPECT_TRUE(wait_for_stop(lock.lost()));
  EXPECT_EQ(lock.loss_reason(), LossReason::taken);
  EXPECT_EQ(lock.extend(), Ownership::lost);
  EXPECT_EQ(lock.release(), Release::was_lost);
  EXPECT_EQ(redis.command({"GET", key_of("lock")}).string, "somebody else");
  redis.command({"DEL", key_of("lock")});
}

TEST_F(LockNetworkTest, KeyThatBecameSomethingElseIsALossWhenTrustEnds) {
  repeat_if_stalled(300ms, [&] {
    const auto failures = client->stats().heartbeat_failures;
    const Lock lock = client->acquire("lock", {.ttl = 1'500ms}).value();
    // In one step: who looks in between would see that it vanished.
    redis.command({"RPUSH", "something else", "a"});
    redis.command({"RENAME", "something else", key_of("lock")});
    EXPECT_TRUE(wait_for_stop(lock.lost()));
    EXPECT_EQ(lock.loss_reason(), LossReason::expired);
    EXPECT_GT(client->stats().heartbeat_failures, failures);
    redis.command({"DEL", key_of("lock")});
  });
}

// --- Threads -----------------------------------------------------------------------------------

TEST_F(LockNetworkTest, CallbackThatOwnsTheClientIsNotDestroyedByTheRenewal) {
  const std::weak_ptr<LockClient> seen = client;
  {
    Lock lock =
        client->acquire("lock", {.ttl = 6s, .on_lost = [owned = client](const LockLoss&) {}})
            .value();
    // A renewal is under way while the lock is released and the client is dropped.
    proxy.swallow_next_reply(Then::hang, lock.owner());
    ASSERT_TRUE(proxy.wait_swallowed(patience));
    EXPECT_EQ(lock.release(), Release::done);
  }
  client.reset();
  EXPECT_TRUE(seen.expired());
}

}  // namespace
}  // namespace leasehold::testing
