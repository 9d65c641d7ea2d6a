// B1 at the link: what was never sent is Unavailable, what may have been executed is
// OutcomeUnknown, and no reply is ever taken for the answer to another command.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "harness/redis_server.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/redis_link.hpp"
#include "redis/script.hpp"
#include "redis/shared_connection.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fault_proxy.hpp"
#include "tests/support/link_calls.hpp"
#include "tests/support/message_of.hpp"

namespace leasehold {
namespace {

using namespace std::chrono_literals;
using harness::RedisServer;
using harness::RedisServerOptions;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::call;
using testing::call_all;
using testing::contains;
using testing::End;
using testing::end_of;
using testing::eventually;
using testing::FaultProxy;
using testing::message_of;

// Where an answer is expected: a loaded machine must not look like a lost reply.
constexpr milliseconds patience = 30s;
// Where none is expected. Also long enough to queue up behind it.
constexpr milliseconds impatience = 300ms;

class RedisLinkFaultsTest : public ::testing::Test {
 protected:
  std::shared_ptr<RedisLink> connect(RedisOptions options = {.connect_timeout = patience,
                                                             .command_timeout = patience}) const {
    return connect_redis(redis.uri_through(proxy.port()), options);
  }

  /// Calls until the link has come back: it does so by itself, within its pauses.
  static void wait_until_answered(RedisLink& link) {
    EXPECT_TRUE(
        eventually([&] { return end_of([&] { call(link, {"PING"}); }) == End::answered; }, 60s));
  }

  std::string counter(const std::string& key) const { return redis.command({"GET", key}).string; }

  /// The server has done all that others had sent, and has hung up on them.
  bool only_we_are_connected() const {
    return contains(redis.command({"INFO", "clients"}).string, "connected_clients:1\r");
  }

  RedisServer redis;
  FaultProxy proxy{redis.port()};
};

// ---------------------------------------------------------------- never sent

TEST_F(RedisLinkFaultsTest, RefusedConnectionIsUnavailable) {
  proxy.refuse(true);
  const auto link = connect();
  const std::string message = message_of<Unavailable>([&] { call(*link, {"INCR", "n"}); });
  EXPECT_TRUE(contains(message, link->where())) << message;
  EXPECT_TRUE(contains(message, "refused")) << message;
  proxy.refuse(false);
  wait_until_answered(*link);
  EXPECT_EQ(counter("n"), "");
}

TEST_F(RedisLinkFaultsTest, SilentServerIsUnavailableWhileConnecting) {
  proxy.blackhole(true);
  const auto link = connect({.connect_timeout = impatience, .command_timeout = patience});
  const auto before = steady_clock::now();
  EXPECT_THROW(call(*link, {"INCR", "n"}), Unavailable);
  EXPECT_LT(steady_clock::now() - before, patience / 2) << "the connect time-out counts";
  proxy.blackhole(false);
  EXPECT_EQ(end_of([&] { wait_until_answered(*link); }), End::answered);
  EXPECT_EQ(counter("n"), "") << "nothing that was given up may arrive later";
}

TEST_F(RedisLinkFaultsTest, ServerThatHangsUpWhileConnectingIsUnavailable) {
  proxy.swallow_next_reply(FaultProxy::Then::cut, "SELECT");
  const auto link = connect();
  EXPECT_THROW(call(*link, {"INCR", "n"}), Unavailable);
  wait_until_answered(*link);
  EXPECT_EQ(counter("n"), "");
}

TEST_F(RedisLinkFaultsTest, KilledServerIsUnavailableAndComesBack) {
  const auto link = connect_redis(redis.uri(), {.command_timeout = patience});
  EXPECT_EQ(call(*link, {"INCR", "n"}).integer, 1);
  redis.kill();
  // The first may find out only by sending.
  EXPECT_NE(end_of([&] { call(*link, {"INCR", "n"}); }), End::answered);
  for (int i = 0; i < 100; ++i) EXPECT_THROW(call(*link, {"INCR", "n"}), Unavailable);
  redis.start();
  wait_until_answered(*link);
  EXPECT_EQ(call(*link, {"INCR", "n"}).integer, 1) << "one that never happened has arrived";
}

TEST_F(RedisLinkFaultsTest, WhoQueuesBehindASilentServerIsUnavailable) {
  const auto link = connect();
  call(*link, {"PING"});
  proxy.swallow_next_reply(FaultProxy::Then::hang, "INCR");
  std::atomic<bool> leading = true;
  std::jthread leader([&] {
    EXPECT_THROW(call(*link, {"INCR", "first"}, 10s), OutcomeUnknown);
    leading = false;
  });
  ASSERT_TRUE(proxy.wait_swallowed());  // from now on the leader waits for its reply
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        // Leaving the line from its head, its middle and its end.
        for (int i = 0; i < 5; ++i) {
          EXPECT_EQ(end_of([&] { call(*link, {"INCR", "n"}, 20ms); }), End::unavailable);
        }
      });
    }
  }
  EXPECT_TRUE(leading) << "nobody has to wait for the leader's time-out";
  proxy.cut();
  leader.join();
  wait_until_answered(*link);
  EXPECT_EQ(counter("first"), "1");
  EXPECT_EQ(counter("n"), "");
}

// ---------------------------------------------------------------- may have happened

TEST_F(RedisLinkFaultsTest, ReplyLostWithItsConnectionIsUnknown) {
  const auto link = connect();
  for (int i = 1; i <= 5; ++i) {
    wait_until_answered(*link);
    proxy.swallow_next_reply(FaultProxy::Then::cut, "INCR");
    const std::string message = message_of<OutcomeUnknown>([&] { call(*link, {"INCR", "n"}); });
    EXPECT_TRUE(contains(message, link->where())) << message;
    EXPECT_TRUE(proxy.wait_swallowed());
    EXPECT_EQ(counter("n"), std::to_string(i)) << "it did happen";
  }
}

TEST_F(RedisLinkFaultsTest, ReplyThatNeverComesIsUnknownWithinTheTimeout) {
  const auto link = connect();
  call(*link, {"PING"});
  proxy.swallow_next_reply(FaultProxy::Then::hang, "INCR");
  const auto before = steady_clock::now();
  EXPECT_THROW(call(*link, {"INCR", "n"}, impatience), OutcomeUnknown);
  const auto took = steady_clock::now() - before;
  EXPECT_GE(took, impatience - 5ms) << "given up early";
  EXPECT_LT(took, impatience + 10s);
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_EQ(counter("n"), "1");
  EXPECT_EQ(call(*link, {"ECHO", "next"}).text, "next");
}

TEST_F(RedisLinkFaultsTest, RequestThatIsLostIsUnknownToo) {
  const auto link = connect();
  for (const auto then : {FaultProxy::Then::cut, FaultProxy::Then::hang}) {
    call(*link, {"PING"});
    proxy.swallow_next_request(then, "INCR");
    EXPECT_THROW(call(*link, {"INCR", "n"}, impatience), OutcomeUnknown);
    EXPECT_EQ(counter("n"), "");
  }
}

TEST_F(RedisLinkFaultsTest, PausedServerIsUnknownAndItsLateReplyIsNobodys) {
  const auto link = connect_redis(redis.uri(), {.command_timeout = patience});
  EXPECT_EQ(call(*link, {"ECHO", "first"}).text, "first");
  redis.pause();
  EXPECT_THROW(call(*link, {"ECHO", "late"}, impatience), OutcomeUnknown);
  redis.resume();
  for (int i = 0; i < 20; ++i) {
    const std::string word = std::to_string(i);
    EXPECT_EQ(call(*link, {"ECHO", word}).text, word);
  }
}

TEST_F(RedisLinkFaultsTest, ReplyCutInTheMiddleIsUnknown) {
  const auto link = connect();
  const std::string large(4 << 20, 'x');
  call(*link, {"SET", "large", large});
  proxy.set_delay(20ms);  // so that the pieces of the reply arrive one after the other
  const auto before = proxy.bytes_forwarded();
  std::jthread cutter([&] {
    EXPECT_TRUE(eventually([&] { return proxy.bytes_forwarded() > before + 1000; }));
    proxy.cut();
  });
  const End end = end_of([&] { EXPECT_EQ(call(*link, {"GET", "large"}).text, large); });
  EXPECT_TRUE(end == End::unknown || end == End::answered) << end;
  cutter.join();
  proxy.set_delay(0ms);
  wait_until_answered(*link);
  EXPECT_EQ(call(*link, {"GET", "large"}).text, large);
}

TEST_F(RedisLinkFaultsTest, PipelineWithoutAllItsRepliesIsUnknown) {
  const auto link = connect();
  call(*link, {"PING"});
  redis.command({"CONFIG", "SET", "client-output-buffer-limit", "normal 1 1 1"});
  const std::string large(1 << 20, 'x');
  // The server answers the first and hangs up over the size of the second.
  EXPECT_THROW(call_all(*link, {{"INCR", "n"}, {"ECHO", large}, {"INCR", "n"}}), OutcomeUnknown);
  redis.command({"CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0"});
  wait_until_answered(*link);
  EXPECT_GE(std::stoi(counter("n")), 1);
}

// Some scripts of the batch have run when the reload of the others is not sent.
TEST_F(RedisLinkFaultsTest, ReloadThatFailsAfterPartOfTheBatchRanIsUnknown) {
  const std::string known_text = "return redis.call('INCR', KEYS[1])";
  const std::string missing_text = "return 'missing'";
  const std::string known_sha = redis.command({"SCRIPT", "LOAD", known_text}).string;
  const EmbeddedText known{"known", known_sha, known_text};
  const EmbeddedText missing{"missing", "0123456789012345678901234567890123456789", missing_text};

  /// Lets one call through, then nothing.
  class OneCall final : public RedisLink {
   public:
    explicit OneCall(RedisLink& link) : link_(link) {}
    std::vector<leasehold::RedisReply> pipeline(std::span<const RedisCommand> commands,
                                                const RedisCall& how) override {
      if (std::exchange(used_, true)) throw Unavailable("gone");
      return link_.pipeline(commands, how);
    }
    std::string where() const override { return link_.where(); }

   private:
    RedisLink& link_;
    bool used_ = false;
  };

  const auto link = connect();
  const std::vector<redis::ScriptCall> mixed{redis::ScriptCall(known, {"n"}, {}),
                                             redis::ScriptCall(missing, {}, {})};
  OneCall first(*link);
  EXPECT_THROW(redis::run_scripts(first, mixed), OutcomeUnknown);
  EXPECT_EQ(counter("n"), "1");
  const std::vector<redis::ScriptCall> none{redis::ScriptCall(missing, {}, {}),
                                            redis::ScriptCall(missing, {}, {})};
  OneCall second(*link);
  EXPECT_THROW(redis::run_scripts(second, none), Unavailable) << "nothing of it has run";
}

// ---------------------------------------------------------------- coming back

TEST_F(RedisLinkFaultsTest, SlowConnectionLeavesTheCommandItsTime) {
  // A round trip takes 2/3 of what a command may: enough for a command, not for greeting and
  // command together.
  constexpr milliseconds delay = 250ms;
  const auto link = connect({.connect_timeout = patience, .command_timeout = 3 * delay});
  proxy.set_delay(delay);
  EXPECT_TRUE(
      eventually([&] { return end_of([&] { call(*link, {"PING"}); }) == End::answered; }, 10s));
  EXPECT_LE(proxy.accepted(), 3U) << "connections were given up that were only slow";
}

TEST_F(RedisLinkFaultsTest, ConnectionKilledWhileIdleIsReplacedSilently) {
  const auto link = connect_redis(redis.uri(), {.command_timeout = patience});
  for (int i = 1; i <= 5; ++i) {
    EXPECT_EQ(call(*link, {"INCR", "n"}).integer, i);
    const auto last_used = steady_clock::now();
    ASSERT_EQ(redis.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}).integer, 1);
    ASSERT_TRUE(eventually([&] { return only_we_are_connected(); }));
    // Idle means more than the 20 ms for which a connection is trusted unseen.
    ASSERT_TRUE(eventually([&] { return steady_clock::now() - last_used > 50ms; }));
  }
}

TEST_F(RedisLinkFaultsTest, ConnectionThatTheServerTimedOutIsReplacedSilently) {
  const auto link = connect_redis(redis.uri(), {.command_timeout = patience});
  EXPECT_EQ(call(*link, {"INCR", "n"}).integer, 1);
  redis.command({"CONFIG", "SET", "timeout", "1"});
  ASSERT_TRUE(eventually([&] { return only_we_are_connected(); }, 60s));
  EXPECT_EQ(call(*link, {"INCR", "n"}).integer, 2);
}

// Its name may lead to another server by now, but those who ask a replica all the time must not
// connect all the time.
TEST_F(RedisLinkFaultsTest, ReplicaIsLeftWithAFewAttemptsOnly) {
  const auto link = connect();
  EXPECT_EQ(call(*link, {"INCR", "n"}).integer, 1);
  redis.command({"REPLICAOF", "127.0.0.1", "1"});
  const auto before = proxy.accepted();
  constexpr std::size_t calls = 200;
  for (std::size_t i = 0; i < calls; ++i) {
    EXPECT_EQ(call(*link, {"INCR", "n"}).type, RedisReply::Type::error);
  }
  EXPECT_GE(proxy.accepted() - before, 1U);
  EXPECT_LT(proxy.accepted() - before, calls / 4);
}

TEST_F(RedisLinkFaultsTest, RestartUnderManyCallersIsSurvivedWithFewAttempts) {
  const auto link = connect();
  call(*link, {"PING"});
  redis.kill();
  // With its server gone the proxy accepts and hangs up: each attempt is counted.
  const auto attempts_before = proxy.accepted();
  std::atomic<int> failed = 0;
  std::atomic<int> unknown = 0;
  std::atomic<int> back = 0;
  const auto started = steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 16; ++t) {
      threads.emplace_back([&] {
        while (true) {
          const End end = end_of([&] { call(*link, {"PING"}); });
          if (end == End::answered) break;
          ++(end == End::unknown ? unknown : failed);
          std::this_thread::yield();
        }
        ++back;
      });
    }
    // Long enough for many attempts if nothing held them back.
    EXPECT_TRUE(
        eventually([&] { return failed > 1000 && proxy.accepted() - attempts_before >= 4; }, 60s));
    const auto attempts = proxy.accepted() - attempts_before;
    const auto seconds = std::chrono::duration<double>(steady_clock::now() - started).count();
    // Pauses are at least 25, 50, 100, 200, 400, 800 ms, then 1 s.
    EXPECT_LE(static_cast<double>(attempts), 7 + seconds);
    redis.start();
  }
  EXPECT_EQ(back, 16);
  EXPECT_LE(unknown, 16) << "only those who found out by sending";
}

// ---------------------------------------------------------------- many callers, bad network

struct Tally {
  std::atomic<long> answered{0};
  std::atomic<long> unknown{0};
  std::atomic<long> unavailable{0};
};

/// Pipelines of INCR, each followed by an ECHO that proves whose replies these are.
void count_through(RedisLink& link, const std::string& key, int thread, int rounds, Tally& tally) {
  for (int round = 0; round < rounds; ++round) {
    const int length = 1 + (thread * 7 + round) % 50;
    const std::string mark = key + ":" + std::to_string(round) + std::string(500, '.');
    std::vector<std::vector<std::string_view>> commands(static_cast<std::size_t>(length),
                                                        {"INCR", key});
    commands.push_back({"ECHO", mark});
    try {
      const auto replies = call_all(link, commands);
      ASSERT_EQ(replies.size(), commands.size());
      EXPECT_EQ(replies.back().text, mark) << "somebody else's reply";
      for (std::size_t i = 1; i + 1 < replies.size(); ++i) {
        EXPECT_EQ(replies[i].integer, replies[i - 1].integer + 1);
      }
      tally.answered += length;
    } catch (const OutcomeUnknown&) {
      tally.unknown += length;
    } catch (const Unavailable&) {
      tally.unavailable += length;
    }
  }
}

void expect_accounted_for(const std::string& counter, const Tally& tally) {
  const long happened = counter.empty() ? 0 : std::stol(counter);
  EXPECT_GE(happened, tally.answered) << "an answered command did not happen";
  EXPECT_LE(happened, tally.answered + tally.unknown) << "an unavailable command did happen";
}

TEST_F(RedisLinkFaultsTest, EveryCallUnderCutsIsAccountedFor) {
  const auto link = connect();
  constexpr int count = 16;
  std::array<Tally, count> tallies;
  std::atomic<bool> done = false;
  std::jthread cutter([&] {
    auto next = proxy.bytes_forwarded();
    for (int i = 0; !done; ++i) {
      // At another place each time.
      next = proxy.bytes_forwarded() + 5'000 + static_cast<std::uint64_t>(i * 7919 % 60'000);
      (void)eventually([&] { return done || proxy.bytes_forwarded() >= next; }, 60s);
      proxy.cut();
    }
  });
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < count; ++t) {
      threads.emplace_back([&, t] {
        count_through(*link, "n" + std::to_string(t), t, 100, tallies[static_cast<std::size_t>(t)]);
      });
    }
  }
  done = true;
  cutter.join();
  proxy.cut();
  // What was cut off may still be in the server's hands.
  ASSERT_TRUE(eventually([&] { return only_we_are_connected(); }));
  long answered = 0;
  long unknown = 0;
  for (int t = 0; t < count; ++t) {
    const auto& tally = tallies[static_cast<std::size_t>(t)];
    expect_accounted_for(counter("n" + std::to_string(t)), tally);
    answered += tally.answered;
    unknown += tally.unknown;
  }
  EXPECT_GT(answered, 0);
  EXPECT_GT(unknown, 0) << "no cut hit anything";
}

TEST_F(RedisLinkFaultsTest, EveryCallUnderKillsOfTheServerIsAccountedFor) {
  RedisServer durable(
      RedisServerOptions{.persistence = RedisServerOptions::Persistence::append_only});
  const auto link = connect_redis(durable.uri(), {.command_timeout = patience});
  Tally tally;
  std::atomic<long> loading = 0;
  std::atomic<bool> done = false;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        while (!done) {
          leasehold::RedisReply reply;
          const End end = end_of([&] { reply = call(*link, {"INCR", "n"}); });
          if (reply.type == leasehold::RedisReply::Type::error) {
            // An answer too, but a no: the server has started and still reads its file.
            EXPECT_TRUE(reply.text.starts_with("LOADING")) << reply.text;
            ++loading;
            continue;
          }
          ++(end == End::answered  ? tally.answered
             : end == End::unknown ? tally.unknown
                                   : tally.unavailable);
        }
      });
    }
    for (int kill = 0; kill < 4; ++kill) {
      const long goal = tally.answered + 200;
      EXPECT_TRUE(eventually([&] { return tally.answered >= goal; }, 60s));
      durable.kill();
      const long failed = tally.unavailable;
      EXPECT_TRUE(eventually([&] { return tally.unavailable > failed + 20; }, 60s));
      durable.start();
    }
    const long goal = tally.answered + 200;
    EXPECT_TRUE(eventually([&] { return tally.answered >= goal; }, 60s)) << "it did not come back";
    done = true;
  }
  expect_accounted_for(durable.command({"GET", "n"}).string, tally);
  EXPECT_LE(tally.unknown, 4 * 8) << "each kill meets at most one call a thread";
  RecordProperty("loading", std::to_string(loading));
}

/// Of PING as it is sent, which is more than its reply has.
constexpr std::uint64_t ping_bytes = 14;

// One write for many callers breaks in the middle: those who are answered, those who may have been
// executed and those of whom not a byte was sent are three different groups.
TEST_F(RedisLinkFaultsTest, SharedWriteThatBreaksInTheMiddleIsSorted) {
  constexpr int count = 48;
  redis::SharedConnection shared(std::make_shared<redis::Destination>(
      redis::RedisUri::parse(redis.uri_through(proxy.port())), patience));
  const auto run = [&](std::initializer_list<std::string_view> words) {
    const RedisCommand command{words.begin(), words.size()};
    return end_of([&] { shared.execute({&command, 1}, patience); });
  };
  ASSERT_EQ(run({"PING"}), End::answered);

  const std::string payload(1 << 20, 'p');
  std::array<std::atomic<End>, count> ends{};
  redis.pause();
  const auto quiet = proxy.bytes_forwarded();
  std::jthread leader([&] { EXPECT_EQ(run({"PING"}), End::answered); });
  // It has become the leader: its round is on the way.
  ASSERT_TRUE(eventually([&] { return proxy.bytes_forwarded() >= quiet + ping_bytes; }, 60s));
  std::vector<std::jthread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      const std::string key = "k" + std::to_string(t);
      ends[static_cast<std::size_t>(t)] = run({"SET", key, payload});
    });
  }
  ASSERT_TRUE(eventually([&] { return shared.load() == count + 1; }, 60s));
  const auto before = proxy.bytes_forwarded();
  redis.resume();
  ASSERT_TRUE(eventually([&] { return proxy.bytes_forwarded() > before + (3 << 20); }, 60s));
  redis.pause();  // what is under way now fills the buffers and stops
  proxy.cut();
  threads.clear();
  leader.join();
  redis.resume();
  ASSERT_TRUE(eventually([&] { return only_we_are_connected(); }));

  std::array<int, 4> seen{};
  for (int t = 0; t < count; ++t) {
    const End end = ends[static_cast<std::size_t>(t)];
    ++seen[static_cast<std::size_t>(end)];
    const bool exists = redis.command({"EXISTS", "k" + std::to_string(t)}).integer == 1;
    if (end == End::answered || end == End::unavailable) {
      EXPECT_EQ(exists, end == End::answered) << t;
    }
  }
  EXPECT_EQ(seen[static_cast<std::size_t>(End::refused)], 0);
  EXPECT_GT(seen[static_cast<std::size_t>(End::unknown)], 0);
  EXPECT_GT(seen[static_cast<std::size_t>(End::unavailable)], 0);
}

// The next round is sent as soon as replies to this one begin to arrive. If the connection then
// breaks, it takes both along, and whoever is in the second one may have been executed too.
TEST_F(RedisLinkFaultsTest, RoundThatWasSentAheadBreaksWithTheOneBefore) {
  redis::SharedConnection shared(std::make_shared<redis::Destination>(
      redis::RedisUri::parse(redis.uri_through(proxy.port())), patience));
  const auto run = [&](std::initializer_list<std::initializer_list<std::string_view>> calls) {
    std::vector<RedisCommand> commands;
    for (const auto& words : calls) commands.emplace_back(words.begin(), words.size());
    return end_of([&] { shared.execute(commands, patience); });
  };
  ASSERT_EQ(run({{"PING"}}), End::answered);

  const std::string payload(10'000, 'p');
  std::atomic<End> half_answered{End::refused};
  std::atomic<End> sent_ahead{End::refused};
  redis.pause();
  const auto quiet = proxy.bytes_forwarded();
  std::jthread first([&] { half_answered = run({{"PING"}, {"BLPOP", "never", "0"}}); });
  // It has become the leader: its round is on the way.
  ASSERT_TRUE(eventually([&] { return proxy.bytes_forwarded() >= quiet + ping_bytes; }, 60s));
  std::jthread second([&] { sent_ahead = run({{"SET", "ahead", payload}}); });
  ASSERT_TRUE(eventually([&] { return shared.load() == 2; }));
  std::this_thread::sleep_for(50ms);  // it is counted a moment before it stands in line
  const auto before = proxy.bytes_forwarded();
  redis.resume();
  ASSERT_TRUE(eventually([&] { return proxy.bytes_forwarded() > before + payload.size(); }, 60s));
  proxy.cut();
  first.join();
  second.join();
  EXPECT_EQ(half_answered, End::unknown);
  EXPECT_EQ(sent_ahead, End::unknown);
  EXPECT_EQ(run({{"PING"}}), End::answered);
}

// Only some of those who queue set a timer; the others are told by the one before them.
TEST_F(RedisLinkFaultsTest, EveryoneInTheQueueGivesUpInTime) {
  redis::SharedConnection shared(std::make_shared<redis::Destination>(
      redis::RedisUri::parse(redis.uri_through(proxy.port())), patience));
  const auto ping = [&](milliseconds timeout) {
    const std::string_view word = "PING";
    const RedisCommand command{&word, 1};
    return end_of([&] { shared.execute({&command, 1}, timeout); });
  };
  ASSERT_EQ(ping(patience), End::answered);

  redis.pause();
  std::jthread leader([&] { EXPECT_EQ(ping(10 * patience), End::answered); });
  ASSERT_TRUE(eventually([&] { return shared.load() == 1; }));
  std::this_thread::sleep_for(50ms);  // it is counted a moment before it leads
  std::atomic<int> gave_up = 0;
  std::vector<std::jthread> threads;
  // In every order: the second and the last but one have less time than the one before them.
  for (const auto timeout : {800ms, 200ms, 300ms, 900ms, 900ms, 900ms, 100ms, 1000ms}) {
    threads.emplace_back([&, timeout] {
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_EQ(ping(timeout), End::unavailable);
      EXPECT_GE(std::chrono::steady_clock::now() - begin, timeout);
      ++gave_up;
    });
    const int count = static_cast<int>(threads.size());
    ASSERT_TRUE(eventually([&] { return shared.load() + gave_up >= 1 + count; }));
  }
  EXPECT_TRUE(eventually([&] { return gave_up == 8; }, patience)) << gave_up;
  redis.resume();
}

// The same when the head of the second round has withdrawn: the next one is told without it.
TEST_F(RedisLinkFaultsTest, RoundThatBreaksTellsThoseBehindOneThatWithdrew) {
  redis::SharedConnection shared(std::make_shared<redis::Destination>(
      redis::RedisUri::parse(redis.uri_through(proxy.port())), patience));
  const auto run = [&](std::initializer_list<std::initializer_list<std::string_view>> calls,
                       milliseconds timeout) {
    std::vector<RedisCommand> commands;
    for (const auto& words : calls) commands.emplace_back(words.begin(), words.size());
    return end_of([&] { shared.execute(commands, timeout); });
  };
  ASSERT_EQ(run({{"PING"}}, patience), End::answered);

  const std::string payload(10'000, 'p');
  std::atomic<bool> told = false;
  redis.pause();
  std::jthread leader([&] {
    EXPECT_EQ(run({{"PING"}, {"BLPOP", "never", "0"}}, 3 * patience), End::unknown);
  });
  ASSERT_TRUE(eventually([&] { return shared.load() == 1; }));
  std::jthread head([&] { EXPECT_EQ(run({{"PING"}}, 1s), End::unavailable); });
  ASSERT_TRUE(eventually([&] { return shared.load() == 2; }));
  std::jthread behind([&] {
    EXPECT_EQ(run({{"SET", "ahead", payload}}, 3 * patience), End::unknown);
    told = true;
  });
  head.join();
  ASSERT_TRUE(eventually([&] { return shared.load() == 2; }));
  const auto before = proxy.bytes_forwarded();
  redis.resume();
  ASSERT_TRUE(eventually([&] { return proxy.bytes_forwarded() > before + payload.size(); }, 60s));
  proxy.cut();
  leader.join();
  EXPECT_TRUE(eventually([&] { return told.load(); }, patience)) << "left asleep";
}

}  // namespace
}  // namespace leasehold
