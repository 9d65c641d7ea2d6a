// leasehold locks, load and the locks in status.
#include <future>
#include <utility>

#include "tests/support/cli_fixture.hpp"
#include "tests/support/fault_proxy.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

class CliLocksTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    migrate(task_uri);  // for status
  }

  /// Of this test only: the Redis is shared.
  std::string name(const std::string& end) const {
    return std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + ":" + end;
  }
};

TEST_P(CliLocksTest, LocksAreListedAndShown) {
  LockClient client{lock_uri};
  auto held = client.acquire(name("héld"), {.ttl = 1h, .metadata = {{"job", "nightly"}}});
  ASSERT_TRUE(held);
  const auto list = json({"locks", "list", name("*")});
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["name"], name("héld"));
  EXPECT_EQ(list[0]["state"], "held");
  EXPECT_EQ(list[0]["token"], held->token().value);
  EXPECT_EQ(list[0]["runner"], client.runner().str());
  EXPECT_EQ(json({"locks", "list", name("*"), "--state", "stale"}).size(), 0u);

  const CliResult people = cli({"locks", "show", name("héld")});
  EXPECT_EQ(people.code, 0);
  EXPECT_TRUE(contains(people.out, "nightly")) << people;
  EXPECT_TRUE(contains(people.out, "state      held")) << people;
  EXPECT_EQ(json({"locks", "show", name("héld")})["metadata"]["job"], "nightly");
  EXPECT_TRUE(contains(cli({"locks", "list"}).out, client.runner().str()));
  EXPECT_EQ(cli({"locks", "show", name("free")}).code, not_found);
  EXPECT_GE(json({"status"})["locks"]["held"], 1);
}

TEST_P(CliLocksTest, WaitersAreShownInLine) {
  LockClient client{lock_uri};
  auto held = client.acquire(name("x"), {.ttl = 1h});
  ASSERT_TRUE(held);
  std::stop_source stop;
  std::jthread waiter([&] {
    LockClient other{lock_uri};
    other.acquire(name("x"), {.wait = LockOptions::forever, .priority = 7}, stop.get_token());
  });
  EXPECT_TRUE(eventually([&] { return held->waiters().size() == 1; }, 60s));
  const auto shown = json({"locks", "show", name("x")});
  EXPECT_EQ(shown["waiter_count"], 1);
  EXPECT_EQ(shown["waiters"].at(0)["priority"], 7);
  EXPECT_TRUE(contains(cli({"locks", "show", name("x")}).out, "PLACE  KIND"));
  stop.request_stop();
}

TEST_P(CliLocksTest, EachHolderOfASharedLockIsShown) {
  LockClient one{lock_uri};
  LockClient two{lock_uri};
  auto first = SharedLock{one, name("x")}.read({.ttl = 1h});
  auto second = SharedLock{two, name("x")}.read({.ttl = 1h});
  ASSERT_TRUE(first && second);
  const CliResult shown = cli({"locks", "show", name("x")});
  for (const LockClient* client : {&one, &two}) {
    EXPECT_TRUE(contains(shown.out, "holder     " + client->runner().str() + " (pid ")) << shown;
  }
  EXPECT_TRUE(contains(cli({"locks", "list", name("*")}).out, "2 holders"));
  const CliResult unsure = cli({"locks", "release", name("x")});
  EXPECT_TRUE(contains(unsure.err, "is held by 2 holders\n")) << unsure;
  second->release();
  EXPECT_TRUE(contains(cli({"locks", "list", name("*")}).out, "1 holder\n"));
}

TEST_P(CliLocksTest, ALockIsNamedByAnyWordAndByNoOther) {
  LockClient client{lock_uri};
  const std::string plain = name("a");
  std::vector<std::string> odd{"[" + plain + "]", "[" + plain, "--" + plain};
  std::vector<Lock> held;
  for (const std::string& each : odd) held.push_back(*client.acquire(each, {.ttl = 1h}));
  auto bystander = client.acquire(plain, {.ttl = 1h});
  ASSERT_TRUE(bystander);
  EXPECT_EQ(json({"locks", "show", odd[0]})["name"], odd[0]);
  const CliResult result = cli({"locks", "release", "--yes", "--", odd[0], odd[1], odd[2]});
  EXPECT_EQ(result.code, 0) << result;
  for (const std::string& each : odd) EXPECT_FALSE(client.status(each)) << each;
  EXPECT_TRUE(client.status(plain));
  // The name of a command is a name here.
  const auto free = json({"locks", "release", "load", plain, "--yes"}, not_found);
  EXPECT_EQ(free.at(0)["name"], "load");
  EXPECT_EQ(free.at(1)["released"], true);
  EXPECT_EQ(json({"locks", "list", "migrate"}).size(), 0u);
}

TEST_P(CliLocksTest, ReleaseTakesALockAwayAfterAConfirmation) {
  LockClient client{lock_uri};
  auto held = client.acquire(name("x"), {.ttl = 1h});
  ASSERT_TRUE(held);
  const CliResult unsure = cli({"locks", "release", name("x")});
  EXPECT_EQ(unsure.code, misused) << unsure;
  EXPECT_TRUE(contains(unsure.err, "--yes")) << unsure;
  EXPECT_TRUE(client.status(name("x")));
  const CliResult sure = cli({"locks", "release", name("x"), "--yes"});
  EXPECT_EQ(sure.code, 0) << sure;
  EXPECT_TRUE(contains(sure.out, "taken from " + client.runner().str())) << sure;
  EXPECT_TRUE(eventually([&] { return held->lost().stop_requested(); }, 60s));
  const auto again = json({"locks", "release", name("x"), "--yes"}, not_found);
  EXPECT_EQ(again[0]["released"], false);
}

TEST_P(CliLocksTest, CleanRemovesWhatWasLeftBehind) {
  LockClient client{lock_uri};
  auto held = client.acquire(name("x"), {.ttl = 20ms, .heartbeat = Heartbeat::manual});
  ASSERT_TRUE(held);
  EXPECT_TRUE(eventually(
      [&] {
        const auto record = client.status(name("x"));
        return record && record->state == LockState::stale;
      },
      60s));
  EXPECT_EQ(json({"locks", "list", name("*"), "--state", "stale"}).size(), 1u);
  const auto removed = json({"locks", "clean", name("*"), "--yes"})["removed"];
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(removed[0]["name"], name("x"));
  EXPECT_EQ(json({"locks", "list", name("*")}).size(), 0u);
}

TEST_P(CliLocksTest, LoadReportsPairsAndFindsNoViolation) {
  for (const char* shared : {"", "--shared"}) {
    std::vector<std::string> arguments{"load",    "--clients", "4",        "--duration", "700ms",
                                       "--locks", "2",         "--prefix", name("load")};
    if (*shared != '\0') arguments.emplace_back(shared);
    auto report = json(arguments);
    // Again if its clients were starved for all of its time.
    for (int tries = 1; tries < 5 && report["pairs"] == 0; ++tries) report = json(arguments);
    EXPECT_GT(report["pairs"], 0) << report;
    EXPECT_GT(report["pairs_per_second"], 0) << report;
    EXPECT_GE(report["acquire_ms"]["p99"], report["acquire_ms"]["p50"]) << report;
    EXPECT_EQ(report["two_holders"], 0) << report;
    EXPECT_EQ(report["tokens_not_growing"], 0) << report;
  }
  EXPECT_EQ(json({"locks", "list", name("load*")}).size(), 0u) << "left behind";
}

class CliSpoiltLockTest : public CliLocksTest {};

TEST_P(CliSpoiltLockTest, AnErrorInTheMiddleSaysWhatWasDoneBefore) {
  LockClient client{lock_uri};
  auto held = client.acquire(name("a"), {.ttl = 1h});
  shared_redis().command({"RPUSH", "lh:{" + name("b") + "}", "not", "a", "lock"});
  const CliResult result = cli({"locks", "release", name("a"), name("b"), "--yes"});
  EXPECT_EQ(result.code, failed) << result;
  EXPECT_TRUE(contains(result.out, name("a") + ": taken from ")) << result;
  EXPECT_TRUE(contains(result.err, "1 done before this; the rest was not")) << result;
}

/// With leases so short that many end before their holder has seen them.
TEST_P(CliLocksTest, LoadGivesNoFalseAlarmWhenLeasesEndOnTheWay) {
  const CliResult result = cli({"load", "--clients", "16", "--ttl", "20ms", "--duration", "1s",
                                "--prefix", name("load"), "--json"});
  EXPECT_EQ(result.code, 0) << result;
}

/// Runs `leasehold load` for programs and for people. Their server goes away as soon as both have
/// used it.
std::pair<CliResult, CliResult> load_while_the_server_goes_away(const std::string& duration) {
  RedisServer server;
  FaultProxy proxy(server.port());
  const std::jthread outage([&](const std::stop_token& stop) {
    // These keys are there once a lock was granted.
    const std::vector<std::string> granted{"EXISTS", "lh:{a:0}:fence", "lh:{b:0}:fence"};
    while (!stop.stop_requested() && server.command(granted).integer != 2) {
      std::this_thread::sleep_for(5ms);
    }
    proxy.refuse(true);
    proxy.cut();
  });
  const auto load = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"load", "--clients", "4", "--duration", duration, "--prefix"});
    return run_cli(LEASEHOLD_CLI, flags, {},
                   {{"LEASEHOLD_REDIS_URL", server.uri_through(proxy.port())}});
  };
  auto people = std::async(std::launch::async, load, std::vector<std::string>{"a"});
  CliResult programs = load({"b", "--json"});
  return {programs, people.get()};
}

TEST(CliLoadTest, FailedCallsMakeItFailAndAreCountedByKind) {
  std::pair<CliResult, CliResult> results;
  nlohmann::json report;
  // A call waits up to 10 s for a server that is away. Again if the clients were starved.
  for (const char* duration : {"12s", "60s"}) {
    results = load_while_the_server_goes_away(duration);
    report = nlohmann::json::parse(results.first.out, nullptr, false);
    ASSERT_TRUE(report.is_object()) << results.first;
    if (report["pairs"] > 0 && report["errors"] > 0 && results.second.code != 0) break;
  }
  const auto& [programs, people] = results;
  EXPECT_GT(report["pairs"], 0) << programs;
  EXPECT_GT(report["errors"], 0) << programs;
  EXPECT_EQ(programs.code, 1) << programs;
  std::uint64_t sum = 0;
  for (const auto& [kind, number] : report["errors_by_kind"].items()) {
    EXPECT_TRUE(kind == "unreachable" || kind == "outcome_unknown") << kind;
    sum += number.get<std::uint64_t>();
  }
  EXPECT_EQ(report["errors"], sum) << programs;
  EXPECT_NE(report["last_error"], "");
  EXPECT_TRUE(
      contains(nlohmann::json::parse(programs.err)["error"], std::to_string(sum) + " calls failed"))
      << programs;

  EXPECT_EQ(people.code, 1) << people;
  EXPECT_TRUE(contains(people.out, "; the last: ")) << people;
  EXPECT_TRUE(contains(people.err, " calls failed")) << people;
}

/// Somebody breaks the promises from outside, again and again, while leasehold load runs.
class CliVandalTest : public CliLocksTest {
 protected:
  using Vandalise = std::function<void(const RedisEndpoint&)>;

  /// Again if one of them was starved, so that they did not meet.
  CliResult load_while(const Vandalise& vandalise) {
    for (int tries = 1;; ++tries) {
      std::chrono::steady_clock::duration longest_pause{};
      CliResult result = load_once_while(vandalise, longest_pause);
      if (result.code != 0 || tries == 5) return result;
      if (longest_pause < 500ms && result.json()["pairs"] >= 50) return result;
    }
  }
  CliResult load_once_while(const Vandalise& vandalise,
                            std::chrono::steady_clock::duration& longest_pause) {
    const std::jthread vandal([&](const std::stop_token& stop) {
      for (auto last = std::chrono::steady_clock::now(); !stop.stop_requested();) {
        vandalise(shared_redis());
        std::this_thread::sleep_for(5ms);
        longest_pause = std::max(longest_pause, std::chrono::steady_clock::now() - last);
        last = std::chrono::steady_clock::now();
      }
    });
    return cli({"load", "--clients", "3", "--duration", "2s", "--hold", "2ms", "--prefix",
                name("load"), "--json"});
  }
  std::string key() const { return "lh:{" + name("load") + ":0}"; }
};

TEST_P(CliVandalTest, LoadSeesThatTokensDoNotGrow) {
  std::int64_t counter = 8'000'000'000'000'000;  // a smaller one than the clock starts anew
  const CliResult result = load_while([&](const RedisEndpoint& redis) {
    redis.command({"SET", key() + ":fence", std::to_string(counter -= 1'000)});
  });
  EXPECT_EQ(result.code, failed) << result;
  EXPECT_GT(result.json()["tokens_not_growing"], 0) << result;
  EXPECT_TRUE(contains(result.err, "broke a guarantee")) << result;
}

TEST_P(CliVandalTest, LoadSeesThatTwoTrustTheSameLock) {
  const CliResult result = load_while([&](const RedisEndpoint& redis) {
    redis.command({"DEL", key()});
  });
  EXPECT_EQ(result.code, failed) << result;
  EXPECT_GT(result.json()["two_holders"], 0) << result;
}

INSTANTIATE_TEST_SUITE_P(On, CliSpoiltLockTest, ::testing::Values(On::servers), name_of_store);
INSTANTIATE_TEST_SUITE_P(On, CliVandalTest, ::testing::Values(On::servers), name_of_store);
INSTANTIATE_TEST_SUITE_P(On, CliLocksTest, ::testing::Values(On::servers, On::sqlite),
                         name_of_store);

}  // namespace
}  // namespace leasehold::testing
