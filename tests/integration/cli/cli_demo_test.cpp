// leasehold demo, small: workers are killed, and everything is done exactly once.

#include "harness/redis_cluster.hpp"
#include "tests/support/cli_fixture.hpp"

namespace leasehold::testing {
namespace {

class CliDemoTest : public ::testing::TestWithParam<On> {
 protected:
  static CliResult demo(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"demo", "--on", GetParam() == On::servers ? "servers" : "sqlite", "--workers",
                      "3", "--tasks", "300", "--seconds", "3"});
    return run_cli(LEASEHOLD_CLI, arguments);
  }
};

TEST_P(CliDemoTest, EveryTaskHasItsEffectOnceWhileWorkersAreKilled) {
  int struck = 0;
  // Again if the demo was starved while its workers did everything.
  for (int tries = 0; tries < 5 && struck == 0; ++tries) {
    const CliResult result = demo({"--json"});
    ASSERT_EQ(result.code, 0) << result;
    const auto ledger = result.json();
    EXPECT_EQ(ledger["tasks"], 300);
    EXPECT_EQ(ledger["effects"], 300);
    EXPECT_GE(ledger["executions"], 300);
    EXPECT_EQ(ledger["lost"], 0);
    EXPECT_EQ(ledger["doubled"], 0);
    EXPECT_EQ(ledger["lock_violations"], 0);
    EXPECT_EQ(ledger["as_promised"], true);
    struck = ledger["kills"].get<int>() + ledger["freezes"].get<int>();
  }
  EXPECT_GT(struck, 0);
}

TEST_P(CliDemoTest, InAPipeItIsPlainTextOf80Columns) {
  const CliResult result = demo({"--seed", "1"});
  ASSERT_EQ(result.code, 0) << result;
  EXPECT_EQ(result.err, "");
  EXPECT_FALSE(contains(result.out, "\x1b")) << result;
  EXPECT_FALSE(contains(result.out, "\r")) << result;
  EXPECT_TRUE(contains(result.out, "Everything as promised")) << result;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

// Every topology goes through the same URIs; this one has the most parts.
TEST(CliDemoOnAClusterTest, LocksAreInTheClusterThatItIsGiven) {
  const harness::RedisCluster redis;
  const CliResult result = run_cli(LEASEHOLD_CLI, {"demo", "--redis", redis.uri(), "--workers", "3",
                                                   "--tasks", "300", "--seconds", "3"});
  ASSERT_EQ(result.code, 0) << result;
  EXPECT_TRUE(contains(result.out, "redis+cluster://")) << result;
  EXPECT_TRUE(contains(result.out, "Everything as promised")) << result;
  EXPECT_FALSE(redis.keys("lh:{leasehold-demo:*").empty());
}

INSTANTIATE_TEST_SUITE_P(On, CliDemoTest, ::testing::Values(On::servers, On::sqlite),
                         name_of_store);

}  // namespace
}  // namespace leasehold::testing
