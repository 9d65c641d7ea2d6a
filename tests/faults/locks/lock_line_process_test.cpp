// The waiting line, with waiters and holders in processes that are killed and stopped.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <future>
#include <sstream>

#include "harness/process.hpp"
#include "tests/support/event_recorder.hpp"
#include "tests/support/lock_clients.hpp"
#include "tests/support/lock_store.hpp"
#include "tests/support/redis_keys.hpp"
#include "tests/support/starvation.hpp"
#include "tests/support/test_namespace.hpp"
#include "tests/support/waiter.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// The program lock_line_program.
class Peer {
 public:
  explicit Peer(const std::string& uri)
      : process({LEASEHOLD_TEST_PROGRAMS "/lock_line_program", uri}) {
    std::istringstream line{read("ready")};
    std::string ready;
    line >> ready >> runner;
    EXPECT_EQ(ready, "ready");
  }

  void tell(const std::string& order) { EXPECT_TRUE(process.write_line(order)); }
  /// The next line that starts with this word. Others, which may come first, are kept.
  std::string read(const std::string& word) {
    for (;;) {
      const auto found = std::find_if(unread_.begin(), unread_.end(), [&](const std::string& line) {
        return line.starts_with(word + " ");
      });
      if (found != unread_.end()) {
        std::string line = *found;
        unread_.erase(found);
        return line;
      }
      auto line = process.read_line(patience);
      if (!line) return "no answer";
      unread_.push_back(*std::move(line));
    }
  }

  void release(const std::string& id) {
    tell("release " + id);
    EXPECT_EQ(read("released"), "released " + id);
  }

  std::uint64_t evicted() {
    tell("evicted");
    return std::stoull(read("evicted").substr(8));
  }

  struct Granted {
    std::string id;
    FencingToken token;
    std::string previous;
  };

  Granted read_grant() {
    std::istringstream line{read("granted")};
    std::string word;
    Granted granted;
    line >> word >> granted.id >> granted.token.value >> granted.previous;
    return granted;
  }

  Process process;
  std::string runner;

 private:
  std::deque<std::string> unread_;
};

class LockLineProcessTest : public OnEveryLockStoreOfItsOwn {
 protected:
  void SetUp() override {
    client.acquire(name).value().release();
    EXPECT_TRUE(store.all_listen(listening));
  }
  void TearDown() override { store.expect_nothing_left(); }

  /// A process whose client listens.
  Peer& peer() {
    Peer& added = peers.emplace_back(store.uri());
    EXPECT_TRUE(store.all_listen(++listening));
    return added;
  }

  Lock hold() {
    return client.acquire(name, {.ttl = 60s, .metadata = {{"id", "test"}}, .wait = patience})
        .value();
  }

  /// Returns when the process stands in line for the lock.
  void join(Peer& peer, const std::string& id, const std::string& then = "hold",
            std::chrono::milliseconds ttl = 60s) {
    tell_to_join(peer, id + " " + name + " " + std::to_string(ttl.count()) + " 0 " + then);
  }
  /// The same; `kind` as lock_line_program wants it.
  void join_as(const std::string& kind, Peer& peer, const std::string& id) {
    tell_to_join(peer, id + " " + name + " 60000 0 hold " + kind);
  }
  void tell_to_join(Peer& peer, const std::string& claim) {
    const auto before = line_length(client, name);
    peer.tell("acquire " + claim);
    EXPECT_TRUE(in_line(before + 1));
  }

  /// Whether as many stand in line now.
  ::testing::AssertionResult in_line(std::uint64_t number) {
    return eventually([&] { return line_length(client, name) == number; }, patience);
  }

  /// Whether this client has evicted more than that. It hears of it by a reply, which may come
  /// later than the word to whom the place was given.
  bool has_evicted(std::uint64_t before = 0) {
    return eventually([&] { return client.stats().waiters_evicted > before; }, 5s);
  }

  Lock read() { return SharedLock{client, name}.read({.ttl = 60s, .wait = patience}).value(); }
  std::future<Acquisition> read_in_background(std::chrono::milliseconds wait = patience) {
    return std::async(std::launch::async, [this, wait] {
      return SharedLock{client, name}.read({.ttl = 60s, .wait = wait});
    });
  }

  /// The processes in the line.
  std::vector<pid_t> pids_in_line() {
    std::vector<pid_t> pids;
    if (const auto record = client.status(name)) {
      for (const LockWaiter& waiter : record->waiters) pids.push_back(waiter.pid);
    }
    return pids;
  }

  void kill(Peer& peer) {
    peer.process.kill(SIGKILL);
    EXPECT_TRUE(peer.process.wait(patience));
    EXPECT_TRUE(store.all_listen(--listening));  // the store has heard of it
  }

  /// For what depends on turns, of which each lasts a second: again, with new processes, if this
  /// one stood still.
  template <class Scenario>
  void repeat_if_turns_are_missed(const Scenario& scenario) {
    store.repeat_if_stalled(500ms, [&] {
      if (!peers.empty()) {
        peers.clear();
        listening = 1;
        EXPECT_TRUE(store.all_listen(listening));
        client.force_release(name);
      }
      scenario();
    });
  }

  StallWatch stalls{100ms};
  std::string name = name_for_test();
  std::shared_ptr<EventRecorder> events = std::make_shared<EventRecorder>();
  LockClient client{store.uri(), as_new_runner(events)};
  std::deque<Peer> peers;
  std::size_t listening = 1;  // clients
};
ON_STORES_BETWEEN_PROCESSES(LockLineProcessTest);

TEST_P(LockLineProcessTest, FourProcessesGetTheLockInTheOrderInWhichTheyJoined) {
  constexpr std::size_t waiters_each = 8;
  for (int i = 0; i < 4; ++i) peer();
  // A process that the machine leaves without a core for a second is thought frozen and loses its
  // turn. That is not what is tested here: then once more.
  for (int attempt = 0;; ++attempt) {
    Lock lock = hold();
    std::vector<std::string> joined;
    for (std::size_t i = 0; i < 4 * waiters_each; ++i) {
      joined.push_back(std::to_string(i));
      join(peers[i % 4], joined.back(), "pass");
    }
    lock.release();
    std::map<FencingToken, std::string> granted;  // tokens grow from grant to grant
    std::uint64_t evicted = client.stats().waiters_evicted;
    for (Peer& each : peers) {
      for (std::size_t i = 0; i < waiters_each; ++i) {
        const auto grant = each.read_grant();
        granted.emplace(grant.token, grant.id);
      }
      evicted += each.evicted();
    }
    std::vector<std::string> order;
    for (const auto& [token, id] : granted) order.push_back(id);
    if (order != joined && evicted > 0 && attempt < 3) continue;
    EXPECT_EQ(order, joined);
    break;
  }
}

TEST_P(LockLineProcessTest, KilledWaitersAtTheHeadDoNotDelayTheLine) {
  Peer& doomed = peer();
  Peer& living = peer();
  Lock lock = hold();
  for (const char* id : {"a", "b", "c"}) join(doomed, id);
  join(living, "d");
  kill(doomed);
  lock.release();
  // Not a moment's delay: the release itself passed them over.
  EXPECT_EQ(holder_of(client, name), "d");
  EXPECT_EQ(living.read_grant().id, "d");
  EXPECT_EQ(client.stats().waiters_evicted, 3U);
  living.release("d");
}

TEST_P(LockLineProcessTest, KilledWaiterInTheMiddleDoesNotDelayTheLine) {
  Peer& doomed = peer();
  Peer& living = peer();
  Lock lock = hold();
  join(living, "a");
  join(doomed, "b");
  join(living, "c");
  kill(doomed);
  lock.release();
  EXPECT_EQ(living.read_grant().id, "a");
  living.release("a");
  EXPECT_EQ(holder_of(client, name), "c");
  EXPECT_EQ(living.read_grant().id, "c");
  living.release("c");
}

TEST_P(LockLineProcessTest, StoppedProcessAtTheHeadDelaysTheLineOnceAndComesBackToItsPlaces) {
  repeat_if_turns_are_missed([&] {
    Peer& frozen = peer();
    Peer& living = peer();
    Lock lock = hold();
    std::vector<std::string> ids;
    for (int i = 0; i < 12; ++i) ids.push_back(std::to_string(i));
    for (const auto& id : ids) join(frozen, id);
    join(living, "f");
    join(living, "g");
    store.pause(frozen.process);
    const auto released = Clock::now();
    lock.release();
    EXPECT_EQ(living.read_grant().id, "f");
    // About 1 s for the whole process, 2 s at most; its waiters one by one would take 12 s.
    EXPECT_LT(Clock::now() - released, 4s + stalls.time_lost());
    EXPECT_EQ(pids_in_line(), std::vector<pid_t>{living.process.pid()});

    frozen.process.resume();
    std::vector<pid_t> expected(ids.size(), frozen.process.pid());
    expected.push_back(living.process.pid());
    EXPECT_TRUE(eventually([&] { return pids_in_line() == expected; }, patience));

    living.release("f");
    for (const auto& id : ids) {
      EXPECT_EQ(frozen.read_grant().id, id);
      frozen.release(id);
    }
    EXPECT_EQ(living.read_grant().id, "g");
    living.release("g");
  });
}

// --- Those who share the lock, and one who waits to have it alone ------------------------------

TEST_P(LockLineProcessTest, KilledWriterInTheLineDoesNotKeepReadersOut) {
  Peer& doomed = peer();
  Lock reader = read();
  join(doomed, "writer");
  auto late = read_in_background();
  ASSERT_TRUE(in_line(2));
  kill(doomed);
  EXPECT_TRUE(late.get()) << "although the first reader still holds the lock";
  EXPECT_TRUE(has_evicted());
  EXPECT_EQ(line_length(client, name), 0U);
}

TEST_P(LockLineProcessTest, WriterThatWasKilledEarlierDoesNotKeepAReaderOut) {
  Peer& doomed = peer();
  const Lock reader = read();
  join(doomed, "writer");
  kill(doomed);
  EXPECT_TRUE(read_in_background().get());
}

TEST_P(LockLineProcessTest, KilledWriterInTheLineDoesNotKeepPermitsBack) {
  Peer& doomed = peer();
  Semaphore semaphore{client, name, 2};
  const Lock permit = semaphore.acquire({.ttl = 60s}).value();
  join(doomed, "alone");
  kill(doomed);
  EXPECT_TRUE(semaphore.acquire({.wait = patience}));
}

TEST_P(LockLineProcessTest, StoppedWriterInTheLineKeepsReadersOutForAMomentOnlyAndComesBack) {
  Peer& frozen = peer();
  Lock reader = read();
  join(frozen, "writer");
  auto late = read_in_background();
  ASSERT_TRUE(in_line(2));
  store.pause(frozen.process);
  const auto paused = Clock::now();
  Lock beside = late.get().value();
  EXPECT_LT(Clock::now() - paused, 6s + stalls.time_lost());  // about 2 s
  EXPECT_TRUE(has_evicted());

  frozen.process.resume();
  EXPECT_TRUE(in_line(1));
  reader.release();
  beside.release();
  EXPECT_EQ(frozen.read_grant().id, "writer");
  frozen.release("writer");
}

TEST_P(LockLineProcessTest, LivingWriterInTheLineKeepsReadersOutForAsLongAsItWaits) {
  Peer& living = peer();
  Lock reader = read();
  join(living, "writer");
  // One that the machine leaves without a core is thought frozen: then once more.
  for (int attempt = 0;; ++attempt) {
    const auto evicted = client.stats().waiters_evicted;
    auto late = read_in_background(4s);  // several times as long as it would take to evict it
    const bool came_in = late.get().has_value();
    if (came_in && has_evicted(evicted) && attempt < 3) {
      ASSERT_TRUE(in_line(1));
      continue;
    }
    EXPECT_FALSE(came_in);
    break;
  }
  reader.release();
  EXPECT_EQ(living.read_grant().id, "writer");
  living.release("writer");
}

TEST_P(LockLineProcessTest, StoppedReaderOrPermitInTheLineDelaysAWriterOnceAndComesBack) {
  Peer& frozen = peer();
  Peer& living = peer();
  for (const char* kind : {"read", "2"}) {
    Lock lock = hold();
    join_as(kind, frozen, "a");
    join_as(kind, frozen, "b");
    join(living, "writer");
    store.pause(frozen.process);
    lock.release();
    EXPECT_EQ(living.read_grant().id, "writer");
    EXPECT_EQ(line_length(client, name), 0U);
    frozen.process.resume();
    EXPECT_TRUE(in_line(2));
    living.release("writer");
    std::vector<std::string> came_in{frozen.read_grant().id, frozen.read_grant().id};
    std::sort(came_in.begin(), came_in.end());
    EXPECT_EQ(came_in, (std::vector<std::string>{"a", "b"}));
    frozen.release("a");
    frozen.release("b");
  }
}

TEST_P(LockLineProcessTest, WaiterThatDoesNotTakeItsGrantCountsAsEvicted) {
  Peer& frozen = peer();
  Lock lock = hold();
  join(frozen, "a");
  Waiter next{client, name, {.wait = patience}};
  ASSERT_TRUE(eventually([&] { return line_length(client, name) == 2; }, patience));
  store.pause(frozen.process);
  lock.release();
  next.release();
  EXPECT_TRUE(has_evicted());
  EXPECT_EQ(client.stats().waiters_evicted, 1U);
  frozen.process.resume();
  EXPECT_EQ(frozen.read_grant().id, "a");
  frozen.release("a");
}

TEST_P(LockLineProcessTest, StoppedProcessWithoutOthersGetsTheLockWhenItGoesOn) {
  Peer& frozen = peer();
  Lock lock = hold();
  join(frozen, "a");
  join(frozen, "b");
  store.pause(frozen.process);
  lock.release();
  // Its claim has lapsed: the lock is nobody's.
  ASSERT_TRUE(eventually([&] { return !client.status(name); }, patience));
  frozen.process.resume();
  // First the one that was granted it, or the other: both are told at the same time, and which
  // comes first when nobody holds the lock was never promised. But both get it.
  const std::string first = frozen.read_grant().id;
  frozen.release(first);
  const std::string second = frozen.read_grant().id;
  EXPECT_NE(second, first);
  frozen.release(second);
}

TEST_P(LockLineProcessTest, NobodyGetsPastAStoppedWaiterWhileItsTurnLasts) {
  repeat_if_turns_are_missed([&] {
    // Of a lease that ended, each newcomer could help itself, if it were not for the line.
    for (const auto strategy : {OnConflict::fail_fast, OnConflict::retry, OnConflict::wait}) {
      Peer& waiter = peer();
      Lock lock = hold();
      join(waiter, "waiter");
      store.pause(waiter.process);
      store.shorten_lease(name, 60s);
      ASSERT_EQ(client.status(name)->state, LockState::stale);
      const auto newcomer = client.acquire(
          name, {.wait = 50ms, .on_conflict = strategy, .retry = {.retries = 2, .first = 5ms}});
      EXPECT_FALSE(newcomer) << static_cast<int>(strategy);
      waiter.process.resume();
      EXPECT_EQ(waiter.read_grant().id, "waiter");
      waiter.release("waiter");
    }
  });
}

TEST_P(LockLineProcessTest, LockForWhichOnlyTheDeadWaitIsNotBusy) {
  Peer& doomed = peer();
  doomed.tell("acquire h " + name + " 60000 0 hold");
  EXPECT_EQ(doomed.read_grant().id, "h");
  join(doomed, "a");
  join(doomed, "b");
  kill(doomed);
  store.shorten_lease(name, 60s);
  ASSERT_EQ(client.status(name)->state, LockState::stale);
  const Lock lock = client.acquire(name, {.on_conflict = OnConflict::fail_fast}).value();
  EXPECT_EQ(lock.took_over_from()->runner, doomed.runner);
  EXPECT_EQ(line_length(client, name), 0U);
}

TEST_P(LockLineProcessTest, ForceTakesALockThatNobodyHoldsFromThoseWhoWait) {
  Peer& waiter = peer();
  Lock lock = hold();
  join(waiter, "waiter");
  store.pause(waiter.process);
  store.shorten_lease(name, 60s);
  ASSERT_EQ(client.status(name)->state, LockState::stale);
  client.acquire(name, {.wait = 0ms, .on_conflict = OnConflict::force}).value().release();
  waiter.process.resume();
  EXPECT_EQ(waiter.read_grant().id, "waiter");
  waiter.release("waiter");
}

TEST_P(LockLineProcessTest, LockOfAKilledHolderGoesToTheNextInLineWhenItsLeaseEnds) {
  repeat_if_turns_are_missed([&] {
    constexpr auto ttl = 2'000ms;
    const LockStats before = client.stats();
    Peer& holder = peer();
    Peer& other = peer();
    holder.tell("acquire h " + name + " " + std::to_string(ttl.count()) + " 0 hold");
    const auto granted = holder.read_grant();
    Waiter next{client, name, {.metadata = {{"id", "next"}}, .wait = patience}};
    ASSERT_TRUE(eventually([&] { return line_length(client, name) == 1; }, patience));
    join(other, "after");
    kill(holder);
    const auto killed = Clock::now();

    const Lock& lock = next.lock();
    EXPECT_GT(lock.token(), granted.token);
    ASSERT_TRUE(lock.took_over_from());
    EXPECT_EQ(lock.took_over_from()->runner, holder.runner);
    EXPECT_EQ(lock.took_over_from()->pid, holder.process.pid());
    EXPECT_EQ(lock.took_over_from()->state, LockState::stale);
    // Not before the lease had ended, by the server's clock, and soon after.
    EXPECT_GE(lock.took_over_from()->heartbeat_age, ttl);
    EXPECT_LT(lock.took_over_from()->heartbeat_age, ttl + 3s + stalls.time_lost());
    EXPECT_LT(next.ended_at() - killed, ttl + 3s + stalls.time_lost());
    EXPECT_EQ(client.stats().takeovers, before.takeovers + 1);
    EXPECT_EQ(client.stats().stale_seen, before.stale_seen + 1);
    EXPECT_EQ(client.stats().handovers, before.handovers + 1);
    // The one after it gets it in good order, and hears nothing of all that.
    next.release();
    EXPECT_EQ(other.read_grant().previous, "-");
    other.release("after");
  });
}

TEST_P(LockLineProcessTest, UncleanEndIsStillReportedIfTheNextInLineIsStoppedToo) {
  Peer& holder = peer();
  Peer& frozen = peer();
  Peer& living = peer();
  holder.tell("acquire h " + name + " 2000 0 hold");
  EXPECT_EQ(holder.read_grant().id, "h");
  join(frozen, "a");
  join(living, "b");
  store.pause(frozen.process);
  kill(holder);
  const auto grant = living.read_grant();
  EXPECT_EQ(grant.id, "b");
  EXPECT_EQ(grant.previous, holder.runner);
  living.release("b");
  frozen.process.resume();
  EXPECT_EQ(frozen.read_grant().previous, "-");
  frozen.release("a");
}

TEST_P(LockLineProcessTest, UncleanEndIsStillReportedIfAStoppedReaderWasNextInLine) {
  Peer& holder = peer();
  Peer& frozen = peer();
  Peer& living = peer();
  holder.tell("acquire h " + name + " 60000 0 hold");
  EXPECT_EQ(holder.read_grant().id, "h");
  join_as("read", frozen, "a");
  join(living, "b");
  store.pause(frozen.process);
  kill(holder);
  store.shorten_lease(name, 60s);
  const auto grant = living.read_grant();
  EXPECT_EQ(grant.id, "b");
  EXPECT_EQ(grant.previous, holder.runner);
  living.release("b");
  frozen.process.resume();
  EXPECT_EQ(frozen.read_grant().previous, "-");
  frozen.release("a");
}

TEST_P(LockLineProcessTest, UncleanEndIsNotReportedToAWaiterWhoseGrantWasTakenByForce) {
  Peer& holder = peer();
  Peer& first = peer();
  Peer& second = peer();
  holder.tell("acquire h " + name + " 60000 0 hold");
  EXPECT_EQ(holder.read_grant().id, "h");
  join(first, "a");
  join(second, "b");
  store.pause(first.process);
  store.pause(second.process);
  kill(holder);
  store.shorten_lease(name, 60s);
  EXPECT_FALSE(client.acquire(name, {.on_conflict = OnConflict::fail_fast}));  // it is a's turn
  Lock forced = client.acquire(name, {.ttl = 60s, .on_conflict = OnConflict::force}).value();
  first.process.resume();
  second.process.resume();
  EXPECT_TRUE(in_line(2));
  forced.release();
  EXPECT_EQ(first.read_grant().previous, "-");
  first.release("a");
  EXPECT_EQ(second.read_grant().previous, "-");
  second.release("b");
}

TEST_P(LockLineProcessTest, PrioritiesHoldAcrossProcesses) {
  Peer& low = peer();
  Peer& high = peer();
  // As above: a process that the machine leaves without a core loses its turn. Then once more.
  for (int attempt = 0;; ++attempt) {
    Lock lock = hold();
    tell_to_join(low, "low " + name + " 60000 0 pass");
    tell_to_join(high, "high " + name + " 60000 1 pass");
    lock.release();
    const FencingToken first = high.read_grant().token;
    const FencingToken second = low.read_grant().token;
    const auto evicted = client.stats().waiters_evicted + low.evicted() + high.evicted();
    if (second < first && evicted > 0 && attempt < 3) continue;
    EXPECT_LT(first, second);
    break;
  }
}

TEST_P(LockLineProcessTest, StoppedHolderLosesTheLockToTheNextInLine) {
  Peer& holder = peer();
  holder.tell("acquire h " + name + " 2000 0 hold");
  const auto granted = holder.read_grant();
  Waiter next{client, name, {.wait = patience}};
  ASSERT_TRUE(eventually([&] { return line_length(client, name) == 1; }, patience));
  store.pause(holder.process);
  EXPECT_GT(next.lock().token(), granted.token);
  EXPECT_EQ(next.lock().took_over_from()->runner, holder.runner);
  holder.process.resume();
  holder.tell("wait-lost h");
  EXPECT_TRUE(holder.read("lost").starts_with("lost h "));
  EXPECT_TRUE(next.lock().valid());
  next.release();
}

TEST_P(LockLineProcessTest, DeadHolderAndDeadWaitersTogetherDelayTheLivingByTheLeaseOnly) {
  constexpr auto ttl = 2'000ms;
  Peer& doomed = peer();
  Peer& living = peer();
  doomed.tell("acquire h " + name + " " + std::to_string(ttl.count()) + " 0 hold");
  EXPECT_EQ(doomed.read_grant().id, "h");
  for (const char* id : {"a", "b", "c", "d", "e"}) join(doomed, id);
  join(living, "f");
  kill(doomed);
  const auto killed = Clock::now();
  const auto grant = living.read_grant();
  EXPECT_EQ(grant.id, "f");
  EXPECT_EQ(grant.previous, doomed.runner);
  EXPECT_LT(Clock::now() - killed, ttl + 3s + stalls.time_lost());
  living.release("f");
}

TEST_P(LockLineProcessTest, StreamOfDyingWaitersDoesNotStarveTheLine) {
  Peer& living = peer();
  Lock lock = hold();
  for (int i = 0; i < 3; ++i) {
    Peer& doomed = peer();
    join(doomed, "dead");
    join(living, std::to_string(i));
    kill(doomed);
    peers.pop_back();
  }
  lock.release();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(holder_of(client, name), std::to_string(i));
    EXPECT_EQ(living.read_grant().id, std::to_string(i));
    living.release(std::to_string(i));
  }
}

}  // namespace
}  // namespace leasehold::testing
