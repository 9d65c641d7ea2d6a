// 16 processes take and release locks while the primary is killed. `./dev soak failovers` does it
// as often as you like.
//
// LEASEHOLD_TEST_FAILOVERS is the number of failovers, by default 1; LEASEHOLD_HISTORY_SEED repeats
// a choice of work.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include "harness/temp_dir.hpp"
#include "tests/history/failover_storm.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using Needed = RedisReplicas::Needed;

struct Row {
  StormTopology topology;
  Needed replicas;
  std::chrono::milliseconds lag;
};

std::string from_environment_or(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

class FailoverStormTest : public ::testing::TestWithParam<Row> {};

TEST_P(FailoverStormTest, TokensGrowAndNothingElseBreaks) {
  const TempDir dir;
  StormOptions options;
  options.topology = GetParam().topology;
  options.replicas = GetParam().replicas;
  options.lag = GetParam().lag;
  options.failovers = std::stoi(from_environment_or("LEASEHOLD_TEST_FAILOVERS", "1"));
  options.seed = std::stoull(
      from_environment_or("LEASEHOLD_HISTORY_SEED", std::to_string(std::random_device{}())));
  options.directory = dir.path();
  std::cout << "LEASEHOLD_HISTORY_SEED=" << options.seed << std::endl;

  const FailoverReport report = run_failover_storm(options);
  std::cout << to_row(options, report) << std::endl;
  EXPECT_GT(report.grants, 0U);
  EXPECT_EQ(report.tokens_in_disorder, 0);
  EXPECT_EQ(report.violations, "");
  // A primary that is replaced while it lives, because it seemed down, is more than one that fails.
  if (report.unasked_failovers == 0 &&
      (options.replicas == Needed::majority || options.replicas == Needed::all)) {
    EXPECT_EQ(report.overlaps, 0);
  }
}

// Without a policy for replicas, the lag is what makes two processes hold a lock at the same time.
INSTANTIATE_TEST_SUITE_P(Rows, FailoverStormTest,
                         ::testing::Values(Row{StormTopology::sentinel, Needed::none, 500ms},
                                           Row{StormTopology::sentinel, Needed::majority, 500ms},
                                           Row{StormTopology::cluster, Needed::none, 500ms},
                                           Row{StormTopology::cluster, Needed::all, 500ms}),
                         [](const auto& test) {
                           return std::string(to_string(test.param.topology)) + "_" +
                                  to_string(test.param.replicas);
                         });

}  // namespace
}  // namespace leasehold::testing
