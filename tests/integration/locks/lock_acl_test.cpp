// What docs/locks.md says a Redis user must be allowed to do is enough, and all of it is needed to
// touch nothing else.
#include <gtest/gtest.h>
#include <spdlog/sinks/ringbuffer_sink.h>

#include <fstream>
#include <future>
#include <sstream>
#include <string>
#include <vector>

#include "harness/redis_server.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/kept_log.hpp"
#include "tests/support/lock_clients.hpp"
#include "tests/support/signal.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;

/// The words of the ACL SETUSER command in the documentation.
std::vector<std::string> documented_rule() {
  std::ifstream file{LEASEHOLD_SOURCE_DIR
                     "/docs"
                     "/locks.md"};
  std::vector<std::string> words;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("ACL SETUSER")) inside = true;
    if (inside && line.starts_with("```")) break;
    std::istringstream split{line};
    for (std::string word; inside && split >> word;) words.push_back(word);
  }
  return words;
}

TEST(LockAclTest, DocumentedPermissionsAreEnoughForTheWholeFamily) {
  const RedisServer redis;
  const auto rule = documented_rule();
  ASSERT_GT(rule.size(), 10U);
  const auto answer = redis.command(rule);
  ASSERT_FALSE(answer.is_error()) << answer.string;
  const std::string uri =
      "redis://" + rule[2] + ":" + rule[4].substr(1) + "@127.0.0.1:" + std::to_string(redis.port());

  LockClient client{uri, as_new_runner()};
  LockClient other{uri, as_new_runner()};
  SharedLock shared{client, "shared"};
  Semaphore semaphore{client, "semaphore", 1};

  // A handover, which needs the channel.
  Lock held = client.acquire("lock", {.ttl = 30s}).value();
  auto waiter =
      std::async(std::launch::async, [&] { return other.acquire("lock", {.wait = patience}); });
  ASSERT_TRUE(eventually([&] { return client.status("lock")->waiter_count == 1; }, patience));
  EXPECT_EQ(held.extend(), Ownership::held);
  EXPECT_EQ(held.release(), Release::done);
  EXPECT_TRUE(waiter.get());

  Lock writer = shared.write().value();
  EXPECT_EQ(writer.downgrade(), Ownership::held);
  EXPECT_EQ(writer.extend(), Ownership::held);
  EXPECT_TRUE(shared.read());

  const Lock permit = semaphore.acquire().value();
  semaphore.resize(2);
  EXPECT_TRUE(semaphore.acquire({.on_conflict = OnConflict::fail_fast}));

  EXPECT_TRUE(client.acquire_all({"a", "b"}));
  EXPECT_EQ(client.list().size(), 2U);
  EXPECT_TRUE(client.cleanup_stale().empty());
  EXPECT_TRUE(other.force_release("semaphore"));
  EXPECT_TRUE(wait_for_stop(permit.lost()));

  // And for nothing else.
  const auto link = connect_redis(uri);
  const auto refused = [&](std::initializer_list<std::string_view> words) {
    const RedisCommand command{words.begin(), words.size()};
    const auto reply = link->pipeline({&command, 1}).at(0);
    return reply.type == leasehold::RedisReply::Type::error && reply.text.starts_with("NOPERM");
  };
  EXPECT_TRUE(refused({"GET", "somebody else's"}));
  EXPECT_TRUE(refused({"PUBLISH", "news", "hello"}));
  EXPECT_TRUE(refused({"FLUSHALL"}));
  EXPECT_TRUE(refused({"KEYS", "*"}));
}

TEST(LockAclTest, ChannelThatIsNotAllowedIsLoggedOnce) {
  const RedisServer redis;
  const auto answer =
      redis.command({"ACL", "SETUSER", "deaf", "on", ">secret", "~lh:*", "resetchannels", "+@all"});
  ASSERT_FALSE(answer.is_error()) << answer.string;
  const auto log = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(100);
  const auto warnings = [&] {
    std::vector<std::string> found;
    for (const std::string& line : log->last_formatted()) {
      if (line.find("not subscribed") != std::string::npos) found.push_back(line);
    }
    return found;
  };
  auto options = as_new_runner();
  options.logger = std::make_shared<spdlog::logger>("test", log);
  LockClient client{"redis://deaf:secret@127.0.0.1:" + std::to_string(redis.port()), options};
  EXPECT_TRUE(client.acquire("lock"));
  ASSERT_TRUE(eventually([&] { return !warnings().empty(); }, patience));
  EXPECT_NE(warnings().front().find("NOPERM"), std::string::npos) << warnings().front();

  // It subscribes again, on a new connection.
  const auto refusals = [&] {
    const std::string stats = redis.command({"INFO", "commandstats"}).string;
    const auto at = stats.find("cmdstat_subscribe:");
    const auto rejected = stats.find("rejected_calls=", at);
    return at == std::string::npos ? 0 : std::stoi(stats.substr(rejected + 15));
  };
  ASSERT_TRUE(eventually([&] { return refusals() >= 1; }, patience));
  redis.command({"CLIENT", "KILL", "USER", "deaf"});
  ASSERT_TRUE(eventually([&] { return refusals() >= 2; }, patience));
  EXPECT_TRUE(eventually([&] { return static_cast<bool>(client.acquire("lock")); }, patience));
  EXPECT_EQ(warnings().size(), 1U);
}

TEST(LockAclTest, LocksThatMayNotBeReleasedDoNotFillTheLog) {
  const RedisServer redis;
  const auto [logger, log] = KeptLog::make();
  auto options = as_new_runner();
  options.logger = logger;
  LockClient client{redis.uri(), options};
  constexpr int number = 20;
  std::vector<Lock> locks;
  for (int i = 0; i < number; ++i) {
    locks.push_back(client.acquire("lock" + std::to_string(i), {.ttl = 60s}).value());
  }
  redis.command({"ACL", "SETUSER", "default", "-evalsha"});
  locks.clear();
  const auto refusals = [&] {
    const std::string stats = redis.command({"INFO", "errorstats"}).string;
    const std::string label = "errorstat_NOPERM:count=";
    const auto at = stats.find(label);
    return at == std::string::npos ? 0 : std::stoi(stats.substr(at + label.size()));
  };
  // Each is tried by its handle, and then in the background.
  ASSERT_TRUE(eventually([&] { return refusals() >= 2 * number; }, patience));
  const int warnings = log->count("it ends with its ttl");
  EXPECT_GE(warnings, 1);
  EXPECT_LT(warnings, number / 2);  // one, unless the machine stood still
}

}  // namespace
}  // namespace leasehold::testing
