#include <dirent.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "harness/redis_server.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/lock_client.hpp"
#include "leasehold/redis_link.hpp"
#include "redis/redis_errors.hpp"
#include "redis/script.hpp"
#include "redis/shared_connection.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/hostile_server.hpp"
#include "tests/support/link_calls.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/shared_servers.hpp"

namespace leasehold {
namespace {

using namespace std::chrono_literals;
using harness::RedisServer;
using harness::RedisServerOptions;
using testing::call;
using testing::call_all;
using testing::contains;
using testing::eventually;
using testing::shared_redis;
using Reason = ServerRefused::Reason;
using Type = leasehold::RedisReply::Type;

// A loaded machine must not look like a server that does not answer.
const RedisOptions patient{.connect_timeout = 30s, .command_timeout = 30s};

std::shared_ptr<RedisLink> connect(const std::string& uri, RedisOptions options = patient) {
  return connect_redis(uri, options);
}

std::string at_port(const harness::RedisEndpoint& redis, const std::string& credentials,
                    const std::string& rest = "") {
  return "redis://" + credentials + "127.0.0.1:" + std::to_string(redis.port()) + rest;
}

struct Refused {
  Reason reason = Reason::other;
  std::string what;
};

Refused refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ServerRefused& error) {
    return {error.reason(), error.what()};
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of error: " << error.what();
    return {};
  }
  ADD_FAILURE() << "not refused";
  return {};
}

/// A short ttl: for as long as that the client tries to take back what it may have left.
void take_a_lock(const std::string& uri, const std::string& name,
                 std::chrono::milliseconds ttl = 50ms) {
  LockClient client(uri, {.redis = patient});
  (void)client.acquire(name, {.ttl = ttl, .on_conflict = OnConflict::fail_fast});
}

// ---------------------------------------------------------------- where to, and who we are

TEST(RedisUriFormsTest, DatabaseNumberIsSelected) {
  const RedisServer redis;
  const auto link = connect(at_port(redis, "", "/3"));
  EXPECT_EQ(call(*link, {"SET", "k", "v"}).text, "OK");
  EXPECT_TRUE(redis.command({"GET", "k"}).is_nil()) << "in database 0";
  harness::RedisAddress third = redis.address();
  third.database = 3;
  EXPECT_EQ(harness::RespClient(third).command({"GET", "k"}).string, "v");
}

TEST(RedisUriFormsTest, DatabaseThatDoesNotExistIsRefused) {
  const auto link = connect(at_port(shared_redis(), "", "/4000"));
  const auto refused = refusal_of([&] { call(*link, {"PING"}); });
  EXPECT_TRUE(contains(refused.what, "/4000")) << refused.what;
  EXPECT_TRUE(contains(refused.what, "DB index is out of range")) << refused.what;
}

TEST(RedisUriFormsTest, HostNameIsResolved) {
  const auto link = connect("redis://localhost:" + std::to_string(shared_redis().address().port));
  EXPECT_EQ(call(*link, {"PING"}).text, "PONG");
}

TEST(RedisUriFormsTest, UnixSocket) {
  const RedisServer redis;
  const auto link = connect("redis+unix://" + redis.socket_path().string() + "?db=2");
  EXPECT_EQ(call(*link, {"SET", "k", "v"}).text, "OK");
  harness::RedisAddress second = redis.address();
  second.database = 2;
  EXPECT_EQ(harness::RespClient(second).command({"GET", "k"}).string, "v");
}

TEST(RedisUriFormsTest, MissingUnixSocketIsUnavailable) {
  const std::string message = testing::message_of<Unavailable>(
      [] { call(*connect("redis+unix:///no/such/socket"), {"PING"}); });
  EXPECT_TRUE(contains(message, "/no/such/socket")) << message;
}

class CredentialsTest : public ::testing::Test {
 protected:
  static constexpr const char* secret = "s3cr:t@/%";
  static constexpr const char* encoded = "s3cr%3At%40%2F%25";

  static const RedisServer& redis() {
    static const RedisServer server = [] {
      return RedisServer(RedisServerOptions{.password = secret,
                                            .config_lines = {"user app on >apps3cr3t ~* +@all",
                                                             "user poor on >poors3cr3t ~mine* "
                                                             "+select +get +evalsha +script",
                                                             "user off off >offs3cr3t ~* +@all"}});
    }();
    return server;
  }

  void expect_let_in(const std::string& uri, const std::string& user) {
    EXPECT_EQ(call(*connect(uri), {"ACL", "WHOAMI"}).text, user) << user;
  }

  void expect_kept_out(const std::string& uri, const std::string& advice) {
    const auto link = connect(uri);
    // Twice: the second is answered while the link waits before it tries again.
    for (int i = 0; i < 2; ++i) {
      const auto refused = refusal_of([&] { call(*link, {"PING"}); });
      EXPECT_EQ(refused.reason, Reason::authentication) << refused.what;
      EXPECT_TRUE(contains(refused.what, advice)) << refused.what;
      EXPECT_TRUE(contains(refused.what, link->where())) << refused.what;
      for (const char* password : {"s3cr", "apps3cr3t", "wr0ng"}) {
        EXPECT_FALSE(contains(refused.what, password)) << refused.what;
      }
    }
  }
};

TEST_F(CredentialsTest, RightPasswordIsLetIn) {
  expect_let_in(at_port(redis(), ":" + std::string(encoded) + "@"), "default");
  expect_let_in(at_port(redis(), "default:" + std::string(encoded) + "@"), "default");
  expect_let_in(at_port(redis(), "app:apps3cr3t@"), "app");
  expect_let_in("redis+unix://app:apps3cr3t@" + redis().socket_path().string(), "app");
}

TEST_F(CredentialsTest, WrongOrMissingPasswordIsExplained) {
  expect_kept_out(at_port(redis(), ":wr0ng@"), "wrong user or password");
  expect_kept_out(at_port(redis(), "app:wr0ng@"), "wrong user or password");
  expect_kept_out(at_port(redis(), "nobody:wr0ng@"), "wrong user or password");
  expect_kept_out(at_port(redis(), "off:offs3cr3t@"), "wrong user or password");
  expect_kept_out(at_port(redis(), ""), "wants a password");
  // Words of the server's own answer.
  expect_kept_out(at_port(redis(), "app:password@"), "wrong user or password");
  expect_kept_out(at_port(redis(), ":user@"), "wrong user or password");
}

TEST_F(CredentialsTest, PasswordThatTheServerDoesNotWantIsExplained) {
  const RedisServer open;
  expect_kept_out(at_port(open, ":wr0ng@"), "the server has none");
}

// Redis repeats the arguments of a command that it does not know.
TEST_F(CredentialsTest, PasswordIsNotRepeatedFromTheServersAnswer) {
  const RedisServer odd(RedisServerOptions{.config_lines = {"rename-command AUTH \"\""}});
  const std::string long_password(300, 'w');
  for (const std::string& password : {std::string("wr0ng"), long_password}) {
    const auto link = connect(at_port(odd, "us3r:" + password + "@"));
    const auto refused = refusal_of([&] { call(*link, {"PING"}); });
    EXPECT_EQ(refused.reason, Reason::authentication) << refused.what;
    EXPECT_TRUE(contains(refused.what, "AUTH")) << refused.what;
    EXPECT_FALSE(contains(refused.what, "wr0ng")) << refused.what;
    EXPECT_FALSE(contains(refused.what, "wwww")) << refused.what;
  }
}

TEST_F(CredentialsTest, ManyCallersAtOnceAllLearnThatThePasswordIsWrong) {
  const auto link = connect(at_port(redis(), ":wr0ng@"));
  std::vector<std::jthread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(testing::end_of([&] { call(*link, {"PING"}); }), testing::End::refused);
      }
    });
  }
}

TEST_F(CredentialsTest, WhatTheUserMayNotDoIsToldFromAWrongPassword) {
  const std::string uri = at_port(redis(), "poor:poors3cr3t@");
  const auto link = connect(uri);
  const auto command = call(*link, {"SET", "mine", "v"});
  EXPECT_EQ(redis::explain(command.text, link->where()).reason(), Reason::permission)
      << command.text;
  const auto key = call(*link, {"GET", "other"});
  EXPECT_EQ(redis::explain(key.text, link->where()).reason(), Reason::permission) << key.text;
  // The key of a script, and a command inside of one.
  for (const char* name : {"locked", "mine"}) {
    redis().command(
        {"ACL", "SETUSER", "poor", "resetkeys", name == std::string("mine") ? "~*" : "~mine*"});
    const auto refused = refusal_of([&] { take_a_lock(uri, name); });
    EXPECT_EQ(refused.reason, Reason::permission) << refused.what;
  }
}

// ---------------------------------------------------------------- what a server refuses

TEST(RefusalTest, KeyOfAnotherProgramIsWrongType) {
  const std::string name = "refusal-wrong-type";
  shared_redis().command({"RPUSH", "lh:{" + name + "}", "x"});
  const auto refused = refusal_of([&] { take_a_lock(shared_redis().uri(), name); });
  EXPECT_EQ(refused.reason, Reason::wrong_type) << refused.what;
  EXPECT_TRUE(contains(refused.what, "another program uses this key")) << refused.what;
  shared_redis().command({"DEL", "lh:{" + name + "}"});
}

TEST(RefusalTest, FullServerIsOutOfMemory) {
  const RedisServer redis;
  redis.command({"CONFIG", "SET", "maxmemory", "1"});
  const auto refused = refusal_of([&] { take_a_lock(redis.uri(), "n"); });
  EXPECT_EQ(refused.reason, Reason::out_of_memory) << refused.what;
  EXPECT_TRUE(contains(refused.what, "maxmemory")) << refused.what;
  redis.command({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_NO_THROW(take_a_lock(redis.uri(), "n", 30s));
}

TEST(RefusalTest, ReplicaIsReadOnly) {
  const RedisServer primary(RedisServerOptions{.config_lines = {"repl-diskless-sync-delay 0"}});
  const RedisServer replica(RedisServerOptions{
      .config_lines = {"replicaof 127.0.0.1 " + std::to_string(primary.port())}});
  ASSERT_TRUE(eventually(
      [&] {
        return contains(replica.command({"INFO", "replication"}).string, "link_status:up");
      },
      60s));
  const auto refused = refusal_of([&] { take_a_lock(replica.uri(), "n"); });
  EXPECT_EQ(refused.reason, Reason::read_only) << refused.what;
  EXPECT_TRUE(contains(refused.what, "point the URI at the primary")) << refused.what;
}

TEST(RefusalTest, ReplicaWithoutPrimaryAndWithoutDataHasNoPrimary) {
  const RedisServer replica;
  replica.command({"CONFIG", "SET", "replica-serve-stale-data", "no"});
  replica.command({"REPLICAOF", "127.0.0.1", "1"});
  const auto link = connect(replica.uri());
  const auto reply = call(*link, {"GET", "k"});
  EXPECT_EQ(redis::explain(reply.text, link->where()).reason(), Reason::no_primary) << reply.text;
}

TEST(RefusalTest, ServerThatReadsItsDataIsLoading) {
  const RedisServer redis(
      RedisServerOptions{.config_lines = {"enable-debug-command local",
                                          "loading-process-events-interval-bytes 1024"}});
  // A millisecond a key: two seconds, in which it answers every few dozen keys.
  redis.command({"DEBUG", "POPULATE", "2000"});
  redis.command({"CONFIG", "SET", "key-load-delay", "1000"});
  const auto link = connect(redis.uri());
  leasehold::RedisReply reply;
  std::atomic<bool> reloaded = false;
  std::jthread reload;
  // If this machine stands still meanwhile it goes unseen, but not each time.
  for (int tries = 0; tries < 5 && reply.type != Type::error; ++tries) {
    if (reload.joinable()) reload.join();
    reloaded = false;
    reload = std::jthread([&] {
      harness::RespClient(redis.address(), 120s).command({"DEBUG", "RELOAD"});
      reloaded = true;
    });
    while (!reloaded && reply.type != Type::error) reply = call(*link, {"GET", "k"});
  }
  ASSERT_EQ(reply.type, Type::error) << "it was never seen loading";
  const auto refused = redis::explain(reply.text, link->where());
  EXPECT_EQ(refused.reason(), Reason::loading) << reply.text;
  EXPECT_TRUE(refused.transient());
  // A caller with time to wait waits.
  LockClient client(redis.uri(), {.redis = patient});
  EXPECT_TRUE(client.acquire("n", {.wait = 120s}));
}

TEST(RefusalTest, ServerBlockedByAScriptIsBusy) {
  const RedisServer redis(RedisServerOptions{.config_lines = {"busy-reply-threshold 10"}});
  const std::jthread blocker([&] {
    harness::RespClient(redis.address(), 120s).command({"EVAL", "while true do end", "0"});
  });
  const auto link = connect(redis.uri());
  leasehold::RedisReply reply;
  EXPECT_TRUE(eventually(
      [&] {
        try {
          reply = call(*link, {"GET", "k"});
        } catch (const ServerRefused& error) {  // while connecting
          EXPECT_EQ(error.reason(), Reason::busy);
          return true;
        }
        return reply.type == Type::error;
      },
      60s));
  if (reply.type == Type::error) {
    EXPECT_EQ(redis::explain(reply.text, link->where()).reason(), Reason::busy) << reply.text;
  }
  EXPECT_EQ(redis.command({"SCRIPT", "KILL"}).string, "OK");
}

TEST(RefusalTest, SomethingElseThanRedisIsUnavailable) {
  // A port on which nobody ever answers, and one that hangs up, are in the fault tests.
  const RedisServer redis(RedisServerOptions{.config_lines = {"maxclients 1"}});
  // Redis may still count the connection that asked whether it is ready.
  std::optional<harness::RespClient> only;
  ASSERT_TRUE(eventually([&] {
    try {
      only.emplace(redis.address());
      return only->command({"PING"}).string == "PONG";
    } catch (const std::exception&) {
      return false;
    }
  }));
  const auto link = connect(redis.uri());
  // Redis says why and hangs up; whether the reason arrives is a race inside the kernel.
  const auto end = testing::end_of([&] { call(*link, {"PING"}); });
  EXPECT_TRUE(end == testing::End::refused || end == testing::End::unavailable) << end;
}

TEST(ExplainTest, EveryKnownErrorHasItsReason) {
  const std::vector<std::pair<std::string, Reason>> errors{
      {"WRONGPASS invalid username-password pair or user is disabled.", Reason::authentication},
      {"ERR invalid password", Reason::authentication},
      {"NOAUTH Authentication required.", Reason::authentication},
      {"NOPERM this user has no permissions to run the 'set' command", Reason::permission},
      {"ERR The user executing the script can't run this command or subcommand script: 1, on "
       "@user_script:1.",
       Reason::permission},
      {"ERR ACL failure in script: User x has no permissions to run the 'get' command script: 1, "
       "on @user_script:1.",
       Reason::permission},
      {"WRONGTYPE Operation against a key holding the wrong kind of value", Reason::wrong_type},
      {"OOM command not allowed when used memory > 'maxmemory'.", Reason::out_of_memory},
      {"READONLY You can't write against a read only replica.", Reason::read_only},
      {"LOADING Redis is loading the dataset in memory", Reason::loading},
      {"MASTERDOWN Link with MASTER is down", Reason::no_primary},
      {"CLUSTERDOWN The cluster is down", Reason::no_primary},
      {"NOREPLICAS Not enough good replicas to write.", Reason::no_replicas},
      {"ERR max number of clients reached", Reason::too_many_clients},
      {"BUSY Redis is busy running a script.", Reason::busy},
      {"MISCONF Redis is configured to save RDB snapshots", Reason::cannot_save},
      {"ERR something new", Reason::other},
  };
  for (const auto& [text, reason] : errors) {
    const auto error = redis::explain(text, "redis://h:1");
    EXPECT_EQ(error.reason(), reason) << text;
    EXPECT_TRUE(contains(error.what(), "redis://h:1")) << error.what();
    EXPECT_TRUE(contains(error.what(), text)) << "the server's own words: " << error.what();
    const bool permanent = reason == Reason::authentication || reason == Reason::permission ||
                           reason == Reason::wrong_type || reason == Reason::other;
    EXPECT_EQ(error.transient(), !permanent) << text;
    const bool overloaded = reason == Reason::out_of_memory || reason == Reason::too_many_clients ||
                            reason == Reason::cannot_save;
    EXPECT_EQ(error.overloaded(), overloaded) << text;
  }
}

TEST(ExplainTest, ErrorsThatOldServersWrapInAScriptsFrameAreUnwrapped) {
  const std::string frame = "ERR Error running script (call to f_0123456789abcdef): ";
  const std::vector<std::pair<std::string, Reason>> errors{
      {"@user_script:41: WRONGTYPE Operation against a key", Reason::wrong_type},
      {"@user_script: 41: -OOM command not allowed", Reason::out_of_memory},
      {"@user_script:41: @user_script: 41: -OOM command not allowed", Reason::out_of_memory},
      {"@user_script:7: @user_script: 7: -READONLY You can't write", Reason::read_only},
      {"@user_script:1: @user_script: 1: The user executing the script can't run this command or "
       "subcommand",
       Reason::permission},
      {"@user_script:3: attempt to index a nil value", Reason::other},
  };
  for (const auto& [text, reason] : errors) {
    EXPECT_EQ(redis::explain(frame + text, "h").reason(), reason) << text;
  }
}

// ---------------------------------------------------------------- replies

TEST(RedisLinkTest, EveryKindOfReplyArrivesAsItIs) {
  const auto link = connect(shared_redis().uri());
  const auto replies =
      call_all(*link, {{"SET", "link:kinds", std::string_view("\r\n\0$-1", 7)},
                       {"GET", "link:kinds"},
                       {"GET", "link:missing"},
                       {"INCR", "link:kinds"},
                       {"STRLEN", "link:kinds"},
                       {"EVAL", "return {1, 'two', {false, {}}, {err='E x'}}", "0"},
                       {"GET", ""},
                       {"DEL", "link:kinds"}});
  ASSERT_EQ(replies.size(), 8U);
  EXPECT_EQ(replies[0].type, Type::status);
  EXPECT_EQ(replies[1].text, std::string("\r\n\0$-1", 7));
  EXPECT_EQ(replies[2].type, Type::nil);
  EXPECT_EQ(replies[3].type, Type::error);
  EXPECT_EQ(replies[4].integer, 7);
  const auto& array = replies[5].elements;
  ASSERT_EQ(array.size(), 4U);
  EXPECT_EQ(array[0].integer, 1);
  EXPECT_EQ(array[1].text, "two");
  EXPECT_EQ(array[2].elements.at(0).type, Type::nil);
  EXPECT_EQ(array[2].elements.at(1).type, Type::array);
  EXPECT_EQ(array[3].type, Type::error);
  EXPECT_EQ(replies[6].type, Type::nil);
  EXPECT_EQ(replies[7].integer, 1);
}

TEST(RedisLinkTest, NoCommandsNeedNoServer) {
  EXPECT_TRUE(connect("redis://127.0.0.1:1")->pipeline({}).empty());
}

TEST(RedisLinkTest, LargeValuesGoBothWays) {
  const auto link = connect(shared_redis().uri());
  const std::string large(20 << 20, 'x');
  EXPECT_EQ(call(*link, {"ECHO", large}).text, large);
}

// ---------------------------------------------------------------- a server that means no good

/// The error of a command that the server answers like this after a good greeting.
std::string error_after(const std::string& once, const std::string& again_and_again,
                        std::chrono::milliseconds timeout) {
  testing::HostileServer server;
  server.say(testing::HostileServer::good_greeting + once, again_and_again);
  const auto link = connect(server.uri());
  return testing::message_of<OutcomeUnknown>([&] { call(*link, {"PING"}, timeout); });
}

TEST(HostileServerTest, ReplyWithoutEndIsGivenUpSoonAfterTheTimeOut) {
  // A line without end: it takes longer and longer to look for its end, so that the next bytes are
  // always there already.
  const std::string error = error_after("+", std::string(65'536, 'x'), 100ms);
  EXPECT_TRUE(contains(error, "within the time-out")) << error;
}

TEST(HostileServerTest, ReplyThatIsTooLargeIsNotKept) {
  const std::string bulk(100'000, 'x');
  for (const auto& [once, again] : {std::pair<std::string, std::string>{"$1000000000\r\n", bulk},
                                    {"*900000\r\n", "$100000\r\n" + bulk + "\r\n"}}) {
    const std::string error = error_after(once, again, 30s);
    EXPECT_TRUE(contains(error, "larger than 64 MiB")) << error;
  }
}

TEST(HostileServerTest, NoMemoryIsTakenForAnArrayThatIsOnlyAnnounced) {
  const std::string error = error_after("*2000000000\r\n", "", 30s);
  EXPECT_TRUE(contains(error, "too many elements or levels")) << error;
}

TEST(HostileServerTest, DeeplyNestedReplyIsRefused) {
  const auto nested = [](int levels) {
    std::string bytes;
    for (int i = 0; i < levels; ++i) bytes += "*1\r\n";
    return bytes + ":1\r\n";
  };
  for (const int levels : {7, 100'000}) {
    const std::string error = error_after(nested(levels), "", 30s);
    EXPECT_TRUE(contains(error, "too many elements or levels")) << error;
  }
  testing::HostileServer server;
  server.say(testing::HostileServer::good_greeting + nested(6));
  EXPECT_EQ(call(*connect(server.uri()), {"PING"}).type, Type::array);
}

// ---------------------------------------------------------------- many callers

// Replies of many sizes and kinds, among them errors, in pipelines of many lengths.
void expect_own_answers(RedisLink& link, int thread, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const std::string mine = std::to_string(thread) + ":" + std::to_string(round) + ":" +
                             std::string(static_cast<std::size_t>((thread * round) % 300), 'x');
    std::vector<std::vector<std::string_view>> commands;
    const int length = 1 + (thread + round) % 4;
    for (int i = 0; i < length; ++i) {
      commands.push_back({"ECHO", mine});
      if ((round + i) % 5 == 0) commands.push_back({mine});  // an unknown command
    }
    const auto replies = call_all(link, commands);
    ASSERT_EQ(replies.size(), commands.size());
    for (std::size_t i = 0; i < replies.size(); ++i) {
      const bool is_error = commands[i].size() == 1;
      ASSERT_EQ(replies[i].type, is_error ? Type::error : Type::string);
      if (is_error) {
        ASSERT_TRUE(contains(replies[i].text, mine.substr(0, 60))) << replies[i].text;
      } else {
        ASSERT_EQ(replies[i].text, mine);
      }
    }
  }
}

TEST(RedisLinkTest, SixtyFourThreadsEachGetTheirOwnAnswers) {
  for (const std::size_t connections : {1U, 3U}) {
    RedisOptions options = patient;
    options.connections = connections;
    const auto link = connect(shared_redis().uri(), options);
    std::vector<std::jthread> threads;
    for (int t = 0; t < 64; ++t) {
      threads.emplace_back([&link, t] { expect_own_answers(*link, t, 150); });
    }
  }
}

std::size_t threads_of_this_process() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    ++count;
  }
  return count;
}

TEST(RedisLinkTest, LoneCallerTalksToRedisItself) {
  // Nobody there to hop to.
  const auto before = threads_of_this_process();
  const auto link = connect(shared_redis().uri());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(call(*link, {"PING"}).text, "PONG");
  EXPECT_EQ(threads_of_this_process(), before);
}

long long statistic(const harness::RedisEndpoint& redis, const std::string& name) {
  const std::string info = redis.command({"INFO", "everything"}).string;
  const auto at = info.find("\n" + name + ":");
  if (at == std::string::npos) throw std::runtime_error(name + " is not in INFO");
  return std::stoll(info.substr(at + name.size() + 2));
}

TEST(RedisLinkTest, CallersThatWaitTogetherAreSentTogether) {
  RedisServer redis;
  redis::SharedConnection shared(
      std::make_shared<redis::Destination>(redis::RedisUri::parse(redis.uri()), 60s));
  const auto ping = [&] {
    const std::string_view word = "PING";
    const RedisCommand command{&word, 1};
    EXPECT_EQ(shared.execute({&command, 1}, 60s).at(0).text, "PONG");
  };
  ping();
  const auto reads_before = statistic(redis, "total_reads_processed");
  redis.pause();
  std::vector<std::jthread> threads;
  for (int t = 0; t < 64; ++t) threads.emplace_back(ping);
  EXPECT_TRUE(eventually([&] { return shared.load() == 64; }, 60s));
  redis.resume();
  threads.clear();
  // One read for the first, one for all the others, one for our own INFO; some room for callers
  // that were counted but not yet in line.
  EXPECT_LE(statistic(redis, "total_reads_processed") - reads_before, 20);
}

TEST(RedisLinkTest, AsManyConnectionsAsAskedForAndNotMore) {
  const RedisServer redis;
  for (const std::size_t connections : {1U, 4U}) {
    RedisOptions options = patient;
    options.connections = connections;
    const auto link = connect(redis.uri(), options);
    const auto before = statistic(redis, "total_connections_received");
    std::vector<std::jthread> threads;
    for (int t = 0; t < 32; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) call(*link, {"PING"});
      });
    }
    threads.clear();
    const auto made = statistic(redis, "total_connections_received") - before;
    EXPECT_GE(made, 1);
    EXPECT_LE(made, static_cast<long long>(connections));
  }
}

TEST(RedisLinkTest, FirstCallersAtOnceConnectOnce) {
  const RedisServer redis;
  const auto before = statistic(redis, "total_connections_received");
  const auto link = connect(redis.uri());
  std::vector<std::jthread> threads;
  for (int t = 0; t < 32; ++t) threads.emplace_back([&] { call(*link, {"PING"}); });
  threads.clear();
  EXPECT_EQ(statistic(redis, "total_connections_received") - before, 1);
}

// ---------------------------------------------------------------- scripts

/// A script of this test, named by the hash that Redis gives it.
class TestScript {
 public:
  TestScript(const harness::RedisEndpoint& redis, std::string text)
      : text_(std::move(text)), sha1_(redis.command({"SCRIPT", "LOAD", text_}).string) {}

  EmbeddedText embedded() const { return {"test", sha1_, text_}; }

 private:
  std::string text_;
  std::string sha1_;
};

class ScriptTest : public ::testing::Test {
 protected:
  void flush() { ASSERT_EQ(redis.command({"SCRIPT", "FLUSH"}).string, "OK"); }

  const RedisServer redis;
  const std::shared_ptr<RedisLink> link = connect(redis.uri());
  const TestScript incr{redis, "return redis.call('INCR', KEYS[1])"};
  const TestScript echo{redis, "return ARGV[1]"};
  const TestScript fail{redis, "return redis.error_reply('NO ' .. ARGV[1])"};
  const EmbeddedText incr_text = incr.embedded();
  const EmbeddedText echo_text = echo.embedded();
  const EmbeddedText fail_text = fail.embedded();
};

TEST_F(ScriptTest, IsLoadedAgainAfterAFlush) {
  for (int i = 1; i <= 3; ++i) {
    flush();
    EXPECT_EQ(redis::run_script(*link, {incr_text, {"n"}, {}}).integer, i);
    EXPECT_EQ(redis::run_script(*link, {echo_text, {}, {"x"}}).text, "x");
  }
}

TEST_F(ScriptTest, KnownScriptIsNotSentAgain) {
  redis::run_script(*link, {incr_text, {"n"}, {}});
  redis.command({"CONFIG", "RESETSTAT"});
  for (int i = 0; i < 5; ++i) redis::run_script(*link, {incr_text, {"n"}, {}});
  const std::string commands = redis.command({"INFO", "commandstats"}).string;
  EXPECT_TRUE(contains(commands, "cmdstat_evalsha:calls=5")) << commands;
  EXPECT_FALSE(contains(commands, "cmdstat_script")) << commands;
}

TEST_F(ScriptTest, EveryScriptOfAPipelineRunsOnceThoughSomeAreMissing) {
  flush();
  redis::run_script(*link, {echo_text, {}, {"known"}});  // one of three is known
  std::vector<redis::ScriptCall> calls;
  std::vector<std::string> words;
  for (int i = 0; i < 30; ++i) words.push_back(std::to_string(i));
  for (const std::string& word : words) {
    calls.emplace_back(incr_text, std::initializer_list<std::string_view>{"n"},
                       std::initializer_list<std::string_view>{});
    calls.emplace_back(echo_text, std::initializer_list<std::string_view>{},
                       std::initializer_list<std::string_view>{word});
    calls.emplace_back(fail_text, std::initializer_list<std::string_view>{},
                       std::initializer_list<std::string_view>{word});
  }
  const auto replies = redis::run_scripts(*link, calls);
  ASSERT_EQ(replies.size(), 90U);
  for (std::size_t i = 0; i < words.size(); ++i) {
    EXPECT_EQ(replies[3 * i].integer, static_cast<long long>(i) + 1);
    EXPECT_EQ(replies[3 * i + 1].text, words[i]);
    EXPECT_EQ(replies[3 * i + 2].text, "NO " + words[i]);
  }
  EXPECT_EQ(redis.command({"GET", "n"}).string, "30");
}

TEST_F(ScriptTest, SurvivesFlushesAtAnyMoment) {
  std::atomic<bool> done = false;
  std::jthread flusher([&] {
    while (!done) flush();
  });
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int round = 0; round < 50; ++round) {
          const std::vector<redis::ScriptCall> calls(20, redis::ScriptCall(incr_text, {"n"}, {}));
          for (const auto& reply : redis::run_scripts(*link, calls)) {
            ASSERT_EQ(reply.type, Type::integer) << reply.text;
          }
        }
      });
    }
  }
  done = true;
  EXPECT_EQ(redis.command({"GET", "n"}).string, "4000") << "each exactly once";
}

TEST_F(ScriptTest, RefusedLoadConcernsOnlyTheCallsThatNeededIt) {
  redis.command({"ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all", "-script"});
  const auto poor = connect(at_port(redis, "app:pw@"));
  flush();
  redis::run_script(*link, {incr_text, {"n"}, {}});
  const std::vector<redis::ScriptCall> calls{redis::ScriptCall(incr_text, {"n"}, {}),
                                             redis::ScriptCall(echo_text, {}, {"x"})};
  const auto replies = redis::run_scripts(*poor, calls);
  EXPECT_EQ(replies.at(0).integer, 2) << "this one did happen, and must not be called refused";
  EXPECT_EQ(redis::explain(replies.at(1).text, "").reason(), Reason::permission);
  const auto refused = refusal_of([&] { redis::run_script(*poor, {echo_text, {}, {"x"}}); });
  EXPECT_EQ(refused.reason, Reason::permission) << refused.what;
}

}  // namespace
}  // namespace leasehold
