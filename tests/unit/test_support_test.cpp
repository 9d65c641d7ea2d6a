// The support that other tests stand on is tested too: a fault that does not happen makes every
// fault test pass.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <string>
#include <thread>

#include "harness/free_port.hpp"
#include "harness/postgres_server.hpp"
#include "harness/process.hpp"
#include "harness/redis_server.hpp"
#include "harness/temp_dir.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fault_proxy.hpp"
#include "tests/support/shared_servers.hpp"
#include "tests/support/starvation.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

RedisAddress at_port(int port) {
  RedisAddress address;
  address.port = port;
  return address;
}

harness::RedisReply set(RespClient& client, const std::string& key) {
  return client.command({"SET", key, "v"});
}

TEST(TempDirTest, IsRemovedWithItsContents) {
  std::filesystem::path path;
  {
    const TempDir dir;
    path = dir.path();
    std::filesystem::create_directories(path / "a" / "b");
    std::ofstream(path / "a" / "file") << "text";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(FreePortTest, IsGivenToOneOnly) {
  std::vector<FreePort> ports(200);
  std::set<int> numbers;
  for (const auto& port : ports) numbers.insert(port.number());
  EXPECT_EQ(numbers.size(), ports.size());
}

TEST(FreePortTest, IsFreeAgainWhenItsOwnerIsGone) {
  int number = 0;
  {
    const FreePort port;
    number = port.number();
    EXPECT_FALSE(FreePort::at(number));
  }
  EXPECT_TRUE(FreePort::at(number));
  EXPECT_FALSE(FreePort::at(22));
  EXPECT_FALSE(FreePort::at(65'000));  // the kernel may give it to a connection
}

TEST(EventuallyTest, SaysTrueOrGivesUp) {
  int calls = 0;
  EXPECT_TRUE(eventually([&] { return ++calls == 3; }));
  EXPECT_FALSE(eventually([] { return false; }, 5ms));
}

/// Knows beforehand which tries are starved.
struct FakeWatch {
  bool starved() const { return answer; }
  bool answer;
};

TEST(RepeatIfStarvedTest, RepeatsWhatFailedAndForgetsTheFailure) {
  int tries = 0;
  repeat_if_starved([] { return FakeWatch{true}; }, [&] { ASSERT_EQ(++tries, 3); });
  EXPECT_EQ(tries, 3);
  tries = 0;
  repeat_if_starved([] { return FakeWatch{true}; },
                    [&] {
                      if (++tries == 1) throw std::runtime_error("starved");
                      std::thread{[&] { EXPECT_EQ(tries, 3); }}.join();
                    });
  EXPECT_EQ(tries, 3);
}

TEST(RepeatIfStarvedTest, DoesNotRepeatWhatSucceedsOrFailsWithoutBeingStarved) {
  static int tries;  // the macro wants it
  tries = 0;
  repeat_if_starved([] { return FakeWatch{true}; }, [] { ++tries; });
  EXPECT_EQ(tries, 1);
  EXPECT_NONFATAL_FAILURE_ON_ALL_THREADS(
      repeat_if_starved([] { return FakeWatch{false}; }, [] { FAIL() << "try " << ++tries; }),
      "try 2");
  EXPECT_EQ(tries, 2);
  EXPECT_THROW(
      repeat_if_starved([] { return FakeWatch{false}; },
                        [] { throw std::runtime_error("try " + std::to_string(++tries)); }),
      std::runtime_error);
  EXPECT_EQ(tries, 3);
}

TEST(RepeatIfStarvedTest, WhatFailsFiveTimesFails) {
  static int tries;
  tries = 0;
  EXPECT_NONFATAL_FAILURE_ON_ALL_THREADS(
      repeat_if_starved([] { return FakeWatch{true}; }, [] { FAIL() << "try " << ++tries; }),
      "try 5");
  EXPECT_EQ(tries, 5);
}

TEST(StallWatchTest, SeesAServerThatDoesNotAnswerWhileItDoesNot) {
  StallWatch calm{1h, [] {}};
  std::promise<void> answer;
  StallWatch stalled{50ms, [answered = answer.get_future().share()] { answered.wait(); }};
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(stalled.starved());
  answer.set_value();
  EXPECT_FALSE(calm.starved());
  EXPECT_GE(stalled.time_lost(), 100ms);
  EXPECT_EQ(calm.time_lost(), 0ms);
}

TEST(ProcessTest, LinesGoBothWays) {
  Process child{{"sh", "-c", "while read line; do echo \"got $line\"; done; echo bye"}};
  EXPECT_TRUE(child.write_line("one"));
  EXPECT_EQ(child.read_line(), "got one");
  EXPECT_EQ(child.read_line(10ms), std::nullopt);
  EXPECT_TRUE(child.write_line("two"));
  EXPECT_EQ(child.read_line(), "got two");
  child.close_input();
  EXPECT_EQ(child.read_rest(), "bye\n");
  EXPECT_EQ(child.wait(10s), ExitStatus{});
}

TEST(ProcessTest, ReportsCodeAndSignal) {
  Process code{{"sh", "-c", "exit 3"}};
  EXPECT_EQ(code.wait(10s), (ExitStatus{.code = 3}));
  Process signal{{"sleep", "1000"}};
  EXPECT_EQ(signal.wait(0ms), std::nullopt);
  signal.kill(SIGTERM);
  EXPECT_EQ(signal.wait(10s), (ExitStatus{.signal = SIGTERM}));
  EXPECT_FALSE(signal.running());
}

TEST(ProcessTest, SaysWhyAProgramCannotStart) {
  try {
    const Process child{{"/no/such/program"}};
    FAIL() << "started";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOENT);
    EXPECT_NE(std::string{error.what()}.find("/no/such/program"), std::string::npos);
  }
}

TEST(ProcessTest, TakesEnvironmentDirectoryAndFiles) {
  const TempDir dir;
  Process child{{
      .argv = {"sh", "-c", "echo $LEASEHOLD_X; pwd -P; echo problem >&2"},
      .env = {{"LEASEHOLD_X", "a b"}},
      .working_dir = dir.path(),
      .err = Output::file(dir.path() / "err"),
  }};
  EXPECT_EQ(child.read_line(), "a b");
  EXPECT_EQ(child.read_line(), std::filesystem::canonical(dir.path()).string());
  EXPECT_TRUE(child.wait(10s));
  std::string line;
  std::getline(std::ifstream(dir.path() / "err"), line);
  EXPECT_EQ(line, "problem");
}

TEST(ProcessTest, RunsAsAnotherUserWhenRoot) {
  const auto user = unprivileged_user();
  const auto ran = run({.argv = {"id", "-u"}, .run_as = user});
  EXPECT_EQ(ran.output, std::to_string(user ? user->uid : ::getuid()) + "\n");
}

TEST(ProcessTest, WritingToADeadChildIsNoCrash) {
  Process child{{"true"}};
  ASSERT_TRUE(child.wait(10s));
  EXPECT_TRUE(eventually([&] { return !child.write_line("hello"); }));
}

TEST(ProcessTest, InheritsNoDescriptor) {
  const TempDir dir;
  // Without O_CLOEXEC, as some libraries do it.
  const FileDescriptor leaked{::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY)};
  EXPECT_EQ(run({.argv = {"sh", "-c", "ls -l /proc/$$/fd"}}).output.find(dir.path().string()),
            std::string::npos);
}

TEST(ProcessTest, PausedChildStandsStill) {
  Process child{{"sh", "-c", "while read line; do echo \"$line\"; done"}};
  child.pause();
  child.pause();
  child.write_line("late");
  EXPECT_EQ(child.read_line(50ms), std::nullopt);
  child.resume();
  EXPECT_EQ(child.read_line(), "late");
}

TEST(ProcessTest, DestructorLeavesNothing) {
  pid_t pid = 0;
  {
    Process child{{"sleep", "1000"}};
    child.pause();
    pid = child.pid();
    EXPECT_TRUE(is_alive(pid));
  }
  EXPECT_FALSE(is_alive(pid));
}

TEST(ProcessTest, ChildrenDieWithAParentThatCrashes) {
  const TempDir dir;  // a crash leaves directories behind: here they are removed
  for (const bool killed : {false, true}) {
    Process parent{{
        .argv = {std::string{LEASEHOLD_TEST_PROGRAMS} + "/crash_program"},
        .env = {{"TMPDIR", dir.path().string()}},
    }};
    const auto redis = parent.read_line(60s);
    const auto other = parent.read_line(60s);
    ASSERT_TRUE(redis && other);
    EXPECT_EQ(parent.read_line(60s), "PONG");
    EXPECT_TRUE(is_alive(std::stoi(*redis)));
    ASSERT_TRUE(is_alive(std::stoi(*other)));
    if (killed) {
      parent.kill(SIGKILL);
    } else {
      parent.write_line("crash");
    }
    ASSERT_TRUE(parent.wait(10s));
    EXPECT_TRUE(eventually([&] { return !is_alive(std::stoi(*redis)); }));
    EXPECT_TRUE(eventually([&] { return !is_alive(std::stoi(*other)); }));
  }
}

TEST(RedisServerTest, AnswersEveryTypeOfReply) {
  const RedisServer redis;
  EXPECT_EQ(redis.command({"SET", "k", std::string("a\r\nb\0c", 6)}).string, "OK");
  EXPECT_EQ(redis.command({"GET", "k"}).string, std::string("a\r\nb\0c", 6));
  EXPECT_TRUE(redis.command({"GET", "none"}).is_nil());
  EXPECT_EQ(redis.command({"INCR", "n"}).integer, 1);
  EXPECT_TRUE(redis.command({"INCR", "k"}).is_error());
  EXPECT_EQ(redis.command({"MGET", "n", "none"}).elements.size(), 2U);
  EXPECT_EQ(redis.keys("*"), (std::vector<std::string>{"k", "n"}));
  EXPECT_TRUE(std::filesystem::is_socket(redis.socket_path()));
}

TEST(RedisServerTest, TakesPasswordAndConfiguration) {
  const RedisServer redis{{.password = "secret", .config_lines = {"maxmemory 2mb"}}};
  EXPECT_EQ(redis.uri(), "redis://:secret@127.0.0.1:" + std::to_string(redis.port()));
  EXPECT_EQ(redis.command({"CONFIG", "GET", "maxmemory"}).elements.at(1).string, "2097152");
  EXPECT_TRUE(RespClient{at_port(redis.port())}.command({"PING"}).is_error());
  EXPECT_EQ(RespClient{RedisAddress::parse(redis.uri())}.command({"PING"}).string, "PONG");
}

TEST(RedisServerTest, RefusedConfigurationIsReportedWithTheServersWords) {
  try {
    const RedisServer redis{{.config_lines = {"no-such-directive 1"}}};
    FAIL() << "started";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string{error.what()}.find("no-such-directive"), std::string::npos);
  }
}

TEST(RedisServerTest, RunsTheProgramThatTheEnvironmentNames) {
  const std::string named = redis_server_program();
  ::setenv("REDIS_SERVER", "/no/such/server", 1);
  try {
    const RedisServer redis;
    ADD_FAILURE() << "started";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string{error.what()}.find("/no/such/server"), std::string::npos);
  }
  ::setenv("REDIS_SERVER", "", 1);
  EXPECT_EQ(redis_server_program(), "redis-server");
  ::setenv("REDIS_SERVER", named.c_str(), 1);
  const RedisServer redis;
  EXPECT_TRUE(redis.is_up());
}

TEST(RedisServerTest, RestartKeepsOrLosesData) {
  RedisServer redis;
  const int port = redis.port();
  redis.command({"SET", "k", "v"});
  redis.restart(Data::kept);
  EXPECT_EQ(redis.command({"GET", "k"}).string, "v");
  redis.restart(Data::lost);
  EXPECT_TRUE(redis.command({"GET", "k"}).is_nil());
  EXPECT_EQ(redis.port(), port);
}

TEST(RedisServerTest, KillLosesWhatIsInMemory) {
  RedisServer redis;
  redis.command({"SET", "k", "v"});
  redis.restart(Data::kept);
  const pid_t pid = redis.pid();
  redis.kill();
  EXPECT_FALSE(is_alive(pid));
  EXPECT_FALSE(redis.is_up());
  EXPECT_ANY_THROW(redis.command({"PING"}));
  redis.start();
  EXPECT_TRUE(redis.keys("*").empty());
}

TEST(RedisServerTest, AppendOnlySurvivesKill) {
  RedisServer redis{{.persistence = RedisServerOptions::Persistence::append_only}};
  redis.command({"SET", "k", "v"});
  redis.kill();
  redis.start();
  EXPECT_EQ(redis.command({"GET", "k"}).string, "v");
  redis.stop();
  redis.start();
  EXPECT_EQ(redis.command({"GET", "k"}).string, "v");
}

TEST(RedisServerTest, PauseHoldsRepliesBack) {
  RedisServer redis;
  RespClient client{redis.address(), 50ms};
  redis.pause();
  EXPECT_FALSE(redis.is_up());
  EXPECT_ANY_THROW(client.command({"PING"}));
  client.set_timeout(10s);
  redis.resume();
  EXPECT_TRUE(redis.is_up());
  EXPECT_EQ(client.read().string, "PONG");
}

TEST(RedisServerTest, SharedOneIsOne) {
  EXPECT_EQ(&shared_redis(), &shared_redis());
  EXPECT_EQ(shared_redis().command({"PING"}).string, "PONG");
}

TEST(RedisAddressTest, ParsesAndRefuses) {
  const auto full = RedisAddress::parse("redis://me:pw@example:7000/3");
  EXPECT_EQ(full.user, "me");
  EXPECT_EQ(full.password, "pw");
  EXPECT_EQ(full.host, "example");
  EXPECT_EQ(full.port, 7000);
  EXPECT_EQ(full.database, 3);
  EXPECT_EQ(RedisAddress::parse("redis://localhost").port, 6379);
  EXPECT_THROW(RedisAddress::parse("http://localhost"), std::invalid_argument);
}

TEST(PostgresEndpointTest, PutsTheDatabaseIntoTheUri) {
  EXPECT_EQ(PostgresEndpoint{"postgresql://u:p@h:1/d?sslmode=disable"}.uri("x"),
            "postgresql://u:p@h:1/x?sslmode=disable");
  EXPECT_EQ(PostgresEndpoint{"postgresql://h"}.uri("x"), "postgresql://h/x");
  EXPECT_THROW(PostgresEndpoint{"host=h"}, std::invalid_argument);
}

// One server for all of them, because initdb takes a second.
class PostgresServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server = std::make_unique<PostgresServer>(
        PostgresServerOptions{.max_connections = 50, .config_lines = {"work_mem = '5MB'"}});
  }
  static void TearDownTestSuite() { server.reset(); }

  static inline std::unique_ptr<PostgresServer> server;
};

TEST_F(PostgresServerTest, RunsSqlInItsDatabases) {
  EXPECT_EQ(server->run_sql("SHOW max_connections; SHOW work_mem"), "50\n5MB");
  server->create_database("some \"name");
  const std::string fresh = server->create_fresh_database();
  server->run_sql("CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, 'x')", fresh);
  EXPECT_EQ(server->run_sql("SELECT * FROM t", fresh), "1|x");
  EXPECT_THROW(server->run_sql("SELECT * FROM t"), std::runtime_error);
  server->drop_database(fresh);
  EXPECT_THROW(server->run_sql("SELECT 1", fresh), std::runtime_error);
}

TEST_F(PostgresServerTest, ListensOnItsSocketToo) {
  EXPECT_EQ(run({.argv = {"psql", "-XAtq", "-h", server->socket_dir().string(), "-p",
                          std::to_string(server->port()), "-U", "postgres", "-c", "SELECT 1"}})
                .output,
            "1\n");
}

TEST_F(PostgresServerTest, PauseStopsRunningBackends) {
  auto slow = std::async(std::launch::async,
                         [] { return server->run_sql("SELECT pg_sleep(2); SELECT 'done'"); });
  server->pause();
  EXPECT_EQ(slow.wait_for(3s), std::future_status::timeout);
  server->resume();
  EXPECT_EQ(slow.get(), "\ndone");
}

TEST_F(PostgresServerTest, KillAndRestartKeepWhatWasCommitted) {
  server->run_sql("CREATE TABLE kept AS SELECT 1 AS a");
  const pid_t pid = server->pid();
  server->kill();
  EXPECT_FALSE(is_alive(pid));
  EXPECT_THROW(server->run_sql("SELECT 1"), std::runtime_error);
  server->start();
  EXPECT_EQ(server->run_sql("SELECT a FROM kept"), "1");
  server->restart(Data::kept);
  EXPECT_EQ(server->run_sql("SELECT a FROM kept"), "1");
  server->restart(Data::lost);
  EXPECT_THROW(server->run_sql("SELECT a FROM kept"), std::runtime_error);
}

class FaultProxyTest : public ::testing::Test {
 protected:
  RespClient connect(std::chrono::milliseconds timeout = 10s) {
    return RespClient{at_port(proxy.port()), timeout};
  }
  bool exists(const std::string& key) { return redis.command({"EXISTS", key}).integer == 1; }

  RedisServer redis;
  FaultProxy proxy{redis.port()};
};

TEST_F(FaultProxyTest, ForwardsBothWays) {
  {
    RespClient client = connect();
    const std::string large(3'000'000, 'x');
    EXPECT_EQ(client.command({"SET", "large", large}).string, "OK");
    EXPECT_EQ(client.command({"GET", "large"}).string, large);
    EXPECT_EQ(proxy.connections(), 1U);
    // Counted after they were sent.
    EXPECT_TRUE(eventually([&] { return proxy.bytes_forwarded() > 6'000'000U; }));
  }
  EXPECT_TRUE(eventually([&] { return proxy.connections() == 0; }));
  EXPECT_EQ(proxy.accepted(), 1U);
}

TEST_F(FaultProxyTest, DelayIsAddedInEachDirection) {
  RespClient client = connect();
  client.command({"PING"});
  proxy.set_delay(40ms);
  const auto before = steady_clock::now();
  EXPECT_EQ(client.command({"PING"}).string, "PONG");
  EXPECT_GE(steady_clock::now() - before, 80ms);
}

TEST_F(FaultProxyTest, CutEndsConnectionsAndAcceptsNewOnes) {
  RespClient client = connect();
  client.command({"PING"});
  proxy.cut();
  EXPECT_EQ(proxy.connections(), 0U);
  EXPECT_ANY_THROW(client.command({"PING"}));
  EXPECT_EQ(connect().command({"PING"}).string, "PONG");
}

TEST_F(FaultProxyTest, RetargetedConnectionsLeadElsewhereAndOthersStay) {
  const RedisServer other;
  other.command({"SET", "server", "other"});
  const auto server_of = [](RespClient& client) {
    return client.command({"GET", "server"}).string;
  };
  RedisAddress address = redis.address();
  address.port = proxy.port();
  RespClient before{address};
  EXPECT_EQ(server_of(before), "");
  proxy.retarget(other.port());
  EXPECT_EQ(server_of(before), "");
  RespClient after{address};
  EXPECT_EQ(server_of(after), "other");
}

TEST_F(FaultProxyTest, SwallowedReplyMeansItHappened) {
  RespClient client = connect();
  proxy.swallow_next_reply(FaultProxy::Then::cut);
  EXPECT_FALSE(proxy.wait_swallowed(10ms));
  EXPECT_ANY_THROW(set(client, "k"));
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_TRUE(exists("k"));
  RespClient next = connect();
  EXPECT_EQ(set(next, "l").string, "OK");
}

TEST_F(FaultProxyTest, SwallowedReplyMayLeaveTheConnectionHanging) {
  RespClient client = connect(100ms);
  proxy.swallow_next_reply(FaultProxy::Then::hang);
  EXPECT_ANY_THROW(set(client, "k"));
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_TRUE(exists("k"));
  EXPECT_ANY_THROW(set(client, "l"));
  EXPECT_FALSE(exists("l"));
  EXPECT_EQ(proxy.connections(), 1U);
}

TEST_F(FaultProxyTest, SwallowedRequestMeansItDidNotHappen) {
  RespClient client = connect();
  proxy.swallow_next_request(FaultProxy::Then::cut);
  EXPECT_ANY_THROW(set(client, "k"));
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_FALSE(exists("k"));

  RespClient hanging = connect(100ms);
  proxy.swallow_next_request(FaultProxy::Then::hang);
  EXPECT_ANY_THROW(set(hanging, "k"));
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_FALSE(exists("k"));
}

TEST_F(FaultProxyTest, SwallowsOnlyWhatMatches) {
  RespClient client = connect();
  RespClient other = connect();
  proxy.swallow_next_reply(FaultProxy::Then::cut, "special");
  EXPECT_EQ(set(client, "usual").string, "OK");
  EXPECT_EQ(set(other, "usual").string, "OK");
  EXPECT_ANY_THROW(set(client, "special"));
  EXPECT_TRUE(proxy.wait_swallowed());
  EXPECT_EQ(set(other, "special").string, "OK");
}

TEST_F(FaultProxyTest, RefusesNewConnectionsOnly) {
  RespClient client = connect();
  proxy.refuse(true);
  EXPECT_ANY_THROW(connect());
  EXPECT_EQ(client.command({"PING"}).string, "PONG");
  proxy.refuse(false);
  EXPECT_EQ(connect().command({"PING"}).string, "PONG");
}

TEST_F(FaultProxyTest, BlackholeHoldsEverythingUntilItEnds) {
  RespClient client = connect(100ms);
  proxy.blackhole(true);
  EXPECT_ANY_THROW(set(client, "k"));
  RespClient late = connect(100ms);
  EXPECT_ANY_THROW(set(late, "l"));
  EXPECT_FALSE(exists("k"));
  for (RespClient* each : {&client, &late}) each->set_timeout(10s);
  proxy.blackhole(false);
  EXPECT_EQ(client.read().string, "OK");
  EXPECT_EQ(late.read().string, "OK");
  EXPECT_TRUE(exists("k"));
}

TEST_F(FaultProxyTest, DeadServerEndsConnections) {
  RespClient client = connect();
  client.command({"PING"});
  redis.kill();
  EXPECT_ANY_THROW(client.command({"PING"}));
  EXPECT_ANY_THROW(connect().command({"PING"}));
  redis.start();
  EXPECT_EQ(connect().command({"PING"}).string, "PONG");
}

}  // namespace
}  // namespace leasehold::testing
