// Many readers or one writer.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tests/support/family_process.hpp"
#include "tests/support/fault_proxy.hpp"
#include "tests/support/hooked_link.hpp"
#include "tests/support/lock_family.hpp"
#include "tests/support/lock_storm.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

template <class Store>
class SharedLockFixture : public LockFamilyFixture<Store> {
 protected:
  std::future<Acquisition> read_in_background(LockOptions options = {.wait = patience}) {
    return in_background([this, options] { return theirs.read(options); });
  }
  std::future<Acquisition> write_in_background(LockOptions options = {.wait = patience}) {
    return in_background([this, options] { return theirs.write(options); });
  }

  SharedLock lock{this->client, this->name};
  SharedLock theirs{this->other, this->name};
};

class SharedLockTest : public SharedLockFixture<OnEveryLockStore> {};
ON_EVERY_STORE(SharedLockTest);

class SharedLockProcessTest : public SharedLockFixture<OnEveryLockStore> {};
ON_STORES_BETWEEN_PROCESSES(SharedLockProcessTest);

class RedisSharedLockTest : public SharedLockFixture<OnRedis> {
 protected:
  /// Writes what somebody else's lock looks like over ours, and returns it. In one step: who looks
  /// meanwhile sees that somebody has it, never that it is gone.
  std::string overwrite_by_other() {
    const Lock lent = other.acquire(name + ":theirs").value();
    const std::string value = stored(name + ":theirs");
    redis.command({"SET", key_of(name), value, "PX", "3630000"});
    return value;
  }

  std::string stored(const std::string& of) const {
    return redis.command({"GET", key_of(of)}).string;
  }

  RedisEndpoint& redis = store.redis();
};

// --- Many readers or one writer ----------------------------------------------------------------

TEST_P(SharedLockTest, ManyReadersAtOnceAndNoWriterBesideThem) {
  std::vector<Lock> readers;
  for (int i = 0; i < 5; ++i) readers.push_back(lock.read().value());
  readers.push_back(theirs.read(fail_fast()).value());
  EXPECT_EQ(holders(), 6U);
  const auto refused = theirs.write(fail_fast());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.refusal().reason, RefusalReason::busy);
  ASSERT_TRUE(refused.refusal().holder);
  EXPECT_EQ(refused.refusal().holder->kind, LockKind::shared);

  for (Lock& reader : readers) EXPECT_EQ(reader.release(), Release::done);
  EXPECT_FALSE(other.status(name));
  EXPECT_TRUE(theirs.write(fail_fast()));
}

TEST_P(SharedLockTest, OneWriterAndNobodyBesideIt) {
  const Lock writer = lock.write().value();
  EXPECT_FALSE(theirs.read(fail_fast()));
  EXPECT_FALSE(theirs.write(fail_fast()));
  EXPECT_FALSE(lock.read(fail_fast()));
}

TEST_P(SharedLockTest, WritingIsTheSameLockAsAcquire) {
  Lock exclusive = client.acquire(name).value();
  EXPECT_FALSE(theirs.write(fail_fast()));
  EXPECT_FALSE(theirs.read(fail_fast()));
  const FencingToken first = exclusive.token();
  exclusive.release();

  Lock writer = theirs.write().value();
  EXPECT_GT(writer.token(), first);
  EXPECT_FALSE(client.acquire(name, fail_fast()));
  writer.release();

  const Lock reader = theirs.read().value();
  EXPECT_FALSE(client.acquire(name, fail_fast()));
}

TEST_P(SharedLockProcessTest, NobodyIsInsideWhoMustNotBe) {
  const StormReport report = run_storm(store, name, 3, 6, 40, {"shared", "20", "seed"});
  EXPECT_EQ(report.rounds, 3 * 6 * 40);
  EXPECT_EQ(report.violations, 0);
}

TEST_P(SharedLockTest, StatusShowsEveryReaderAndWhoWaits) {
  const Lock first = lock.read({.ttl = 20s, .metadata = {{"task", "report"}}}).value();
  const Lock second = theirs.read({.ttl = 40s}).value();
  std::stop_source enough;
  auto writer = in_background(
      [&] { return theirs.write({.wait = patience, .priority = 3}, enough.get_token()); });
  ASSERT_TRUE(waiting(1));

  const LockRecord record = client.status(name).value();
  EXPECT_EQ(record.kind, LockKind::shared);
  EXPECT_EQ(record.state, LockState::held);
  EXPECT_EQ(record.token, first.token());
  EXPECT_EQ(record.holder_count, 2U);
  ASSERT_EQ(record.holders.size(), 2U);
  // The one whose lease ends first comes first.
  EXPECT_EQ(record.holders[0].runner, client.runner().str());
  EXPECT_EQ(record.holders[0].kind, LockKind::shared);
  EXPECT_EQ(record.holders[0].pid, getpid());
  EXPECT_EQ(record.holders[0].metadata.at("task"), "report");
  EXPECT_EQ(record.holders[0].token, first.token());
  EXPECT_EQ(record.holders[0].ttl, 20s);
  EXPECT_GT(record.holders[0].remaining, 0s);
  EXPECT_LE(record.holders[0].remaining, 20s);
  EXPECT_EQ(record.holders[1].runner, other.runner().str());
  EXPECT_EQ(record.holders[1].ttl, 40s);
  EXPECT_EQ(record.waiter_count, 1U);
  ASSERT_EQ(record.waiters.size(), 1U);
  EXPECT_EQ(record.waiters[0].kind, LockKind::exclusive);
  EXPECT_EQ(record.waiters[0].priority, 3);
  EXPECT_EQ(first.waiters().size(), 1U);

  // The list counts it once, whoever shares it.
  const auto listed = client.list(name);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].holder_count, 2U);
  enough.request_stop();
  EXPECT_FALSE(result_of(writer));
}

TEST_P(SharedLockTest, OutlivesItsClient) {
  auto brief = std::make_optional<LockClient>(store.uri(), as_new_runner());
  SharedLock kept{*brief, name};
  brief.reset();
  Lock reader = kept.read({.ttl = 30s}).value();
  EXPECT_FALSE(theirs.write(fail_fast()));
  EXPECT_EQ(reader.extend(), Ownership::held);
  EXPECT_EQ(reader.release(), Release::done);
  EXPECT_TRUE(kept.write(fail_fast()));
}

// --- Each reader has its own lease -------------------------------------------------------------

TEST_P(SharedLockProcessTest, CrashedReaderDoesNotLiveOnBecauseOthersRenew) {
  store.repeat_if_heartbeats_starved(1'500ms, [&] {
    FamilyProcess crashing{store, name, 4s, "read"};
    crashing.held();
    crashing.kill();
    // Not by the time of day, which may be adjusted meanwhile. It ends no earlier than the first
    // and no later than the second.
    using Steady = std::chrono::steady_clock;
    const auto lease_end =
        [&]() -> std::optional<std::pair<Steady::time_point, Steady::time_point>> {
      const auto asked = Steady::now();
      const auto record = other.status(name);
      const auto answered = Steady::now();
      if (!record) return std::nullopt;
      for (const LockRecord& holder : record->holders) {
        if (holder.pid != crashing.pid()) continue;
        return std::pair{asked + holder.remaining, answered + holder.remaining};
      }
      return std::nullopt;
    };
    const auto end = lease_end().value();

    const auto before = events->count(LockEventType::heartbeat);
    const Lock survivor = lock.read({.ttl = 1'500ms}).value();
    ASSERT_TRUE(events->wait_for(LockEventType::heartbeat, before + 3));
    // Shown in whole milliseconds.
    EXPECT_LE(lease_end().value_or(end).first, end.second + 5ms)
        << "somebody else's heartbeat prolonged it";
    EXPECT_TRUE(eventually([&] { return holders() == 1; }, patience));
    EXPECT_TRUE(survivor.valid());
    EXPECT_FALSE(theirs.write(fail_fast()));
  });
}

TEST_P(SharedLockProcessTest, CrashedReaderBlocksAWriterForItsOwnTtlOnly) {
  store.repeat_if_heartbeats_starved(1'500ms, [&] {
    FamilyProcess crashing{store, name, 1'500ms, "read"};
    crashing.held();
    const auto before = events->count(LockEventType::heartbeat);
    Lock survivor = lock.read({.ttl = 1'500ms}).value();
    auto writer = write_in_background();
    ASSERT_TRUE(waiting(1));
    crashing.kill();
    std::chrono::system_clock::time_point end;
    const auto record = other.status(name).value();
    for (const LockRecord& holder : record.holders) {
      if (holder.pid == crashing.pid()) end = holder.heartbeat_at + holder.ttl;
    }
    ASSERT_TRUE(events->wait_for(LockEventType::heartbeat, before + 2));
    survivor.release();
    const Lock held = result_of(writer).value();
    const auto granted = store.now();
    EXPECT_GE(granted, end - 2ms);  // the dead one's lease was respected
    EXPECT_LT(granted, end + 10s);
  });
}

TEST_P(SharedLockTest, ReaderThatCannotRenewLosesItsOwnLeaseOnly) {
  Lock silent = lock.read({.ttl = 300ms, .heartbeat = Heartbeat::manual}).value();
  const Lock renewed = theirs.read({.ttl = 30s}).value();
  EXPECT_TRUE(wait_for_stop(silent.lost()));
  EXPECT_EQ(silent.loss_reason(), LossReason::expired);
  EXPECT_EQ(silent.extend(), Ownership::lost);
  EXPECT_EQ(silent.release(), Release::was_lost);
  EXPECT_TRUE(renewed.valid());
  EXPECT_FALSE(renewed.lost().stop_requested());
}

TEST_P(SharedLockTest, HeartbeatKeepsAReaderAlive) {
  store.repeat_if_heartbeats_starved(1'500ms, [&] {
    const auto before = events->count(LockEventType::heartbeat);
    const Lock reader = lock.read({.ttl = 1'500ms}).value();
    ASSERT_TRUE(events->wait_for(LockEventType::heartbeat, before + 4));
    EXPECT_TRUE(reader.valid());
    EXPECT_EQ(holders(), 1U);
    EXPECT_GE(other.status(name)->holders.at(0).renewals, 3U);
  });
}

// From outside: it is lost, as an exclusive one is, and does not overwrite the next holder.
TEST_F(RedisSharedLockTest, ReaderOfAnOverwrittenKeyLosesAndLeavesTheNextHolderAlone) {
  Lock reader = lock.read({.ttl = 30s, .heartbeat = Heartbeat::manual}).value();
  const std::string next = overwrite_by_other();
  EXPECT_EQ(reader.extend(), Ownership::lost);
  EXPECT_EQ(reader.loss_reason(), LossReason::taken);
  EXPECT_EQ(reader.release(), Release::was_lost);
  EXPECT_EQ(stored(name), next);
  // Who changes one key of a lock from outside leaves the others to expire.
  redis.command({"DEL", key_of(name), key_of(name) + ":book", key_of(name) + ":holders"});
}

TEST_P(SharedLockTest, ReaderOfADeletedKeyIsToldWhenNobodyElseHasIt) {
  Lock reader = lock.read({.ttl = 30s, .heartbeat = Heartbeat::manual}).value();
  store.delete_lock(name);
  EXPECT_EQ(reader.extend(), Ownership::lost);
  EXPECT_EQ(reader.loss_reason(), LossReason::vanished);
  EXPECT_TRUE(theirs.write(fail_fast()));
}

TEST_F(RedisSharedLockTest, ReaderThatFindsItsKeyDeletedDoesNotCountBesideLaterOnes) {
  Lock reader = lock.read({.ttl = 60s, .heartbeat = Heartbeat::manual}).value();
  redis.command({"DEL", key_of(name)});
  redis.command({"CLIENT", "KILL", "TYPE", "pubsub"});  // so it looks what it still has
  ASSERT_TRUE(eventually([&] { return reader.lost().stop_requested(); }));
  const Lock later = theirs.read(fail_fast()).value();
  EXPECT_EQ(holders(), 1U);
}

// --- The line ----------------------------------------------------------------------------------

TEST_P(SharedLockTest, WaitingWriterStopsNewReaders) {
  repeat_if_evicted([&] {
    Lock reader = lock.read().value();
    auto writer = write_in_background();
    ASSERT_TRUE(waiting(1));
    EXPECT_FALSE(theirs.read(fail_fast()));
    auto late = read_in_background();
    ASSERT_TRUE(waiting(2));
    EXPECT_EQ(holders(), 1U);

    reader.release();
    Lock written = result_of(writer).value();
    EXPECT_EQ(client.status(name)->kind, LockKind::exclusive);
    EXPECT_EQ(in_line(), 1);
    written.release();
    EXPECT_TRUE(result_of(late));
  });
}

TEST_P(SharedLockTest, ReadersBehindAWriterComeInTogether) {
  repeat_if_evicted([&] {
    const auto handovers = other.stats().handovers;
    Lock writer = lock.write().value();
    std::vector<std::future<Acquisition>> readers;
    for (int i = 0; i < 4; ++i) {
      readers.push_back(read_in_background());
      ASSERT_TRUE(waiting(i + 1));
    }
    auto second_writer = write_in_background();
    ASSERT_TRUE(waiting(5));
    auto late_reader = read_in_background();
    ASSERT_TRUE(waiting(6));

    writer.release();
    std::vector<Lock> inside;
    for (auto& reader : readers) inside.push_back(result_of(reader).value());
    EXPECT_EQ(holders(), 4U);
    EXPECT_EQ(in_line(), 2);  // the second writer, and whoever came after it
    for (const Lock& reader : inside) EXPECT_TRUE(reader.valid());
    EXPECT_EQ(other.stats().handovers, handovers + 4);

    inside.clear();
    Lock second = result_of(second_writer).value();
    EXPECT_EQ(in_line(), 1);
    second.release();
    EXPECT_TRUE(result_of(late_reader));
  });
}

TEST_P(SharedLockTest, WriterThatGivesUpLetsTheReadersBehindItIn) {
  repeat_if_evicted([&] {
    const Lock reader = lock.read().value();
    std::stop_source enough;
    auto writer =
        in_background([&] { return theirs.write({.wait = patience}, enough.get_token()); });
    ASSERT_TRUE(waiting(1));
    auto late = read_in_background();
    ASSERT_TRUE(waiting(2));
    enough.request_stop();
    EXPECT_EQ(result_of(writer).refusal().reason, RefusalReason::cancelled);
    EXPECT_TRUE(result_of(late));
  });
}

TEST_F(RedisSharedLockTest, WorksOverALentLinkThatCannotSubscribe) {
  store.repeat_if_stalled(500ms, [&] {
    auto link = std::make_shared<HookedLink>(store.uri());
    link->subscribes = false;
    LockClient deaf{link, as_new_runner()};
    SharedLock waits{deaf, name};
    Lock writer = lock.write().value();
    auto first = in_background([&] { return waits.read({.wait = patience}); });
    auto second = in_background([&] { return waits.read({.wait = patience}); });
    ASSERT_TRUE(waiting(2));
    const auto released = Clock::now();
    writer.release();
    const Lock one = result_of(first).value();
    const Lock two = result_of(second).value();
    EXPECT_LT(Clock::now() - released, 5s);  // about one, on a machine that has time
  });
}

// --- Tokens ------------------------------------------------------------------------------------

TEST_P(SharedLockTest, WritersGetGrowingTokensAndReadersThatOfTheLastWriter) {
  Lock first = lock.write().value();
  const FencingToken first_token = first.token();
  first.release();
  Lock reader = lock.read().value();
  Lock another = theirs.read().value();
  EXPECT_EQ(reader.token(), first_token);
  EXPECT_EQ(another.token(), first_token);
  reader.release();
  another.release();

  Lock second = theirs.write().value();
  const FencingToken second_token = second.token();
  EXPECT_GT(second_token, first_token);
  second.release();
  EXPECT_EQ(lock.read().value().token(), second_token);
}

TEST_P(SharedLockTest, TokensDoNotGoBackWhenTheCounterIsGone) {
  Lock writer = lock.write().value();
  FencingToken last = writer.token();
  writer.release();
  for (int i = 0; i < 3; ++i) {
    store.forget_token(name);  // as if it had expired
    Lock reader = lock.read().value();
    Lock beside = theirs.read().value();
    EXPECT_GE(reader.token(), last);
    EXPECT_EQ(beside.token(), reader.token());
    last = reader.token();
    reader.release();
    beside.release();
    Lock next = theirs.write().value();
    EXPECT_GT(next.token(), last);
    last = next.token();
    next.release();
  }
}

TEST_P(SharedLockTest, FirstReaderOfAllGetsATokenBelowTheFirstWriters) {
  Lock reader = lock.read().value();
  EXPECT_GT(reader.token().value, 0U);
  const FencingToken read = reader.token();
  reader.release();
  EXPECT_GT(theirs.write().value().token(), read);
}

class SharedLockFlushTest : public OnEveryLockStoreOfItsOwn {};
ON_EVERY_STORE(SharedLockFlushTest);

TEST_P(SharedLockFlushTest, ReadersLoseAndTokensGrowWhenTheStoreLosesItsData) {
  store.repeat_if_heartbeats_starved(3s, [&] {
    LockClient client{store.uri(), as_new_runner()};
    SharedLock lock{client, "flushed"};
    FencingToken last = lock.write().value().token();
    Lock reader = lock.read({.ttl = 3s}).value();
    EXPECT_EQ(reader.token(), last);
    store.lose_all_data();
    EXPECT_TRUE(wait_for_stop(reader.lost()));
    EXPECT_EQ(reader.loss_reason(), LossReason::vanished);

    Lock again = lock.read().value();
    EXPECT_GE(again.token(), last);
    last = again.token();
    again.release();
    store.lose_all_data();
    EXPECT_GT(lock.write().value().token(), last);
    store.expect_nothing_left();
  });
}

// --- Downgrade ---------------------------------------------------------------------------------

TEST_P(SharedLockTest, DowngradeLetsWaitingReadersInAndNoWriter) {
  repeat_if_evicted([&] {
    Lock writer = lock.write().value();
    const FencingToken token = writer.token();
    auto reader = read_in_background();
    ASSERT_TRUE(waiting(1));
    auto next_writer = write_in_background();
    ASSERT_TRUE(waiting(2));
    auto late_reader = read_in_background();
    ASSERT_TRUE(waiting(3));

    EXPECT_EQ(writer.downgrade(), Ownership::held);
    Lock beside = result_of(reader).value();
    EXPECT_EQ(beside.token(), token);
    EXPECT_TRUE(writer.valid());
    EXPECT_EQ(writer.token(), token);
    EXPECT_EQ(client.status(name)->kind, LockKind::shared);
    EXPECT_EQ(holders(), 2U);
    EXPECT_EQ(in_line(), 2);
    EXPECT_FALSE(theirs.write(fail_fast()));
    EXPECT_EQ(writer.downgrade(), Ownership::held);  // is one already
    EXPECT_EQ(writer.extend(), Ownership::held);

    EXPECT_EQ(writer.release(), Release::done);
    EXPECT_EQ(in_line(), 2);  // the other reader still keeps the writer out
    beside.release();
    Lock second = result_of(next_writer).value();
    EXPECT_GT(second.token(), token);
    second.release();
    EXPECT_TRUE(result_of(late_reader));
  });
}

TEST_P(SharedLockProcessTest, DowngradeLetsReadersOfOtherProcessesInAndNoWriter) {
  FamilyProcess writer{store, name, 60s, "write"};
  const FencingToken token = writer.held();
  FamilyProcess reader{store, name, 60s, "read"};
  ASSERT_TRUE(waiting(1));
  FamilyProcess next{store, name, 60s, "write"};
  ASSERT_TRUE(waiting(2));
  EXPECT_EQ(writer.ask("downgrade"), "held");
  EXPECT_EQ(reader.held(), token);
  EXPECT_EQ(holders(), 2U);
  EXPECT_TRUE(waiting(1));
  EXPECT_EQ(writer.ask("release"), "done");
  EXPECT_EQ(reader.ask("release"), "done");
  EXPECT_GT(next.held(), token);
}

TEST_P(SharedLockTest, DowngradeDoesNotLetAWriterSlipIn) {
  Lock writer = lock.write().value();
  auto next = write_in_background();
  ASSERT_TRUE(waiting(1));
  EXPECT_EQ(writer.downgrade(), Ownership::held);
  EXPECT_EQ(in_line(), 1);
  EXPECT_EQ(holders(), 1U);
  EXPECT_FALSE(theirs.read(fail_fast()));  // a writer waits
  writer.release();
  EXPECT_TRUE(result_of(next));
}

TEST_P(SharedLockTest, DowngradedLockIsKeptAliveAndCanBeLost) {
  store.repeat_if_heartbeats_starved(1'500ms, [&] {
    Lock held = lock.write({.ttl = 1'500ms}).value();
    ASSERT_EQ(held.downgrade(), Ownership::held);
    const auto before = events->count(LockEventType::heartbeat);
    ASSERT_TRUE(events->wait_for(LockEventType::heartbeat, before + 3));
    EXPECT_TRUE(held.valid());
    EXPECT_EQ(holders(), 1U);
    other.force_release(name);
    EXPECT_TRUE(wait_for_stop(held.lost()));
  });
}

// A heartbeat that left before the downgrade and arrives after it finds no exclusive lock any more.
TEST_F(RedisSharedLockTest, HeartbeatInFlightDoesNotKillADowngradedLock) {
  auto link = std::make_shared<HookedLink>(store.uri());
  Signal heartbeat_left;
  Signal downgraded;
  link->before_renewal = [=] {
    heartbeat_left.set();
    EXPECT_TRUE(downgraded.wait());
  };
  LockClient lent{link, as_new_runner(events)};
  Lock held = SharedLock{lent, name}.write({.ttl = 6s}).value();
  ASSERT_TRUE(heartbeat_left.wait());
  EXPECT_EQ(held.downgrade(), Ownership::held);
  downgraded.set();
  // The late one fails; the next one renews.
  ASSERT_TRUE(events->wait_for(LockEventType::heartbeat_failed));
  ASSERT_TRUE(events->wait_for(LockEventType::heartbeat));
  EXPECT_FALSE(held.lost().stop_requested());
  EXPECT_TRUE(held.valid());
  EXPECT_EQ(held.release(), Release::done);
}

class DowngradeFaultTest : public RedisSharedLockTest {
 protected:
  static LockClientOptions impatient() {
    auto options = as_new_runner();
    options.redis.command_timeout = 400ms;
    return options;
  }

  Lock hold_through(LockClient& through) const {
    return SharedLock{through, name}
        .write({.ttl = 30s, .heartbeat = Heartbeat::manual, .wait = patience})
        .value();
  }

  void TearDown() override {
    held.release();
    RedisSharedLockTest::TearDown();
  }

  FaultProxy proxy{shared_redis().port()};
  LockClient far{redis.uri_through(proxy.port()), as_new_runner()};
  Lock held = hold_through(far);
};

TEST_F(DowngradeFaultTest, LostReplyIsLookedInto) {
  proxy.swallow_next_reply(FaultProxy::Then::cut, name);
  EXPECT_EQ(held.downgrade(), Ownership::held);
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_EQ(client.status(name)->kind, LockKind::shared);
  EXPECT_EQ(holders(), 1U);
  const Lock beside = theirs.read(fail_fast()).value();
  EXPECT_EQ(beside.token(), held.token());
  EXPECT_EQ(held.release(), Release::done);
}

TEST_F(DowngradeFaultTest, UnknownOutcomeIsSaidAndCanBeTriedAgain) {
  LockClient hasty{redis.uri_through(proxy.port()), impatient()};
  held.release();
  held = hold_through(hasty);
  proxy.blackhole(true);
  EXPECT_EQ(held.downgrade(), Ownership::unknown);
  EXPECT_TRUE(held.valid());
  EXPECT_FALSE(held.lost().stop_requested());
  proxy.blackhole(false);
  EXPECT_TRUE(eventually([&] { return held.downgrade() == Ownership::held; }, patience));
  EXPECT_EQ(holders(), 1U);
  EXPECT_TRUE(eventually([&] { return held.extend() == Ownership::held; }, patience));
  EXPECT_EQ(client.status(name)->kind, LockKind::shared);
}

// What did not happen is not half believed in: an exclusive lock stays one, and is lost as one.
TEST_F(DowngradeFaultTest, AfterOneThatDidNotHappenTheLockIsAsItWas) {
  const std::string beaten = name + ":beaten";
  Lock mine = far.acquire(beaten, {.ttl = 6s, .wait = patience}).value();
  proxy.refuse(true);
  proxy.cut();
  ASSERT_TRUE(eventually([&] { return proxy.connections() == 0; }, patience));
  EXPECT_EQ(mine.downgrade(), Ownership::unknown);
  proxy.refuse(false);
  EXPECT_TRUE(eventually([&] { return mine.extend() == Ownership::held; }, patience));
  EXPECT_EQ(client.status(beaten)->kind, LockKind::exclusive);
  redis.command({"DEL", key_of(beaten)});
  EXPECT_TRUE(wait_for_stop(mine.lost()));
  EXPECT_EQ(mine.loss_reason(), LossReason::vanished);  // its next heartbeat was believed
}

TEST_P(SharedLockTest, DowngradeOfALostLockSaysSo) {
  Lock expired = lock.write({.ttl = 50ms, .heartbeat = Heartbeat::manual}).value();
  ASSERT_TRUE(wait_for_stop(expired.lost()));
  EXPECT_EQ(expired.downgrade(), Ownership::lost);
  expired.release();
  EXPECT_TRUE(eventually([&] { return theirs.write(fail_fast()).has_value(); }, patience));

  Lock released = lock.write().value();
  released.release();
  EXPECT_EQ(released.downgrade(), Ownership::lost);
}

TEST_F(RedisSharedLockTest, DowngradeTakesNothingFromAnOverwrittenKey) {
  Lock robbed = lock.write({.ttl = 30s, .heartbeat = Heartbeat::manual}).value();
  const std::string next = overwrite_by_other();
  EXPECT_EQ(robbed.downgrade(), Ownership::lost);
  EXPECT_EQ(robbed.loss_reason(), LossReason::taken);
  EXPECT_EQ(stored(name), next);
  redis.command({"DEL", key_of(name)});
}

TEST_P(SharedLockTest, DowngradeTakesNothingFromTheNextHolder) {
  Lock vanished = lock.write({.ttl = 30s, .heartbeat = Heartbeat::manual}).value();
  store.delete_lock(name);
  EXPECT_EQ(vanished.downgrade(), Ownership::lost);
  EXPECT_EQ(vanished.loss_reason(), LossReason::vanished);

  Lock before_writer = lock.write({.ttl = 30s, .heartbeat = Heartbeat::manual}).value();
  store.delete_lock(name);
  Lock writer = theirs.write().value();
  EXPECT_EQ(before_writer.downgrade(), Ownership::lost);
  EXPECT_EQ(writer.extend(), Ownership::held);
  writer.release();

  Lock beside_readers = lock.write({.ttl = 30s, .heartbeat = Heartbeat::manual}).value();
  store.delete_lock(name);
  const Lock reader = theirs.read().value();
  EXPECT_EQ(beside_readers.downgrade(), Ownership::lost);
  EXPECT_EQ(holders(), 1U);
}

// --- Lost replies ------------------------------------------------------------------------------

TEST_F(RedisSharedLockTest, LostReplyOfAReadIsNotASecondReader) {
  FaultProxy proxy{redis.port()};
  LockClient far{redis.uri_through(proxy.port()), as_new_runner()};
  SharedLock remote{far, name};
  const FencingToken token = remote.read().value().token();
  proxy.swallow_next_reply(FaultProxy::Then::cut, name);
  Lock reader = remote.read().value();
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_EQ(reader.token(), token);
  EXPECT_EQ(holders(), 1U);
  EXPECT_EQ(reader.release(), Release::done);
  EXPECT_EQ(holders(), 0U);
}

}  // namespace
}  // namespace leasehold::testing
