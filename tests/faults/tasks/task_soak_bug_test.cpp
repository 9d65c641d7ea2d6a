// Mistakes in the workers, or in the database, that the soak of the ledger must find.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "harness/temp_dir.hpp"
#include "tests/ledger/ledger_bug.hpp"
#include "tests/ledger/small_task_soak.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

struct Planted {
  LedgerBug bug;
  std::map<std::string, int> faults;  ///< that show it
  std::string finding;                ///< part of what is found
};

class PlantedLedgerBugTest : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedLedgerBugTest, IsFound) {
  const TempDir dir;
  TaskSoakOptions options = small_task_soak(dir);
  options.bug = GetParam().bug;
  options.faults = GetParam().faults;
  // Long enough that a fault meets it.
  options.work = options.bug == LedgerBug::prefetched_count ? 1ms : 20ms;
  const TaskSoakReport report = soak_tasks(options);
  EXPECT_NE(report.violations.find(GetParam().finding), std::string::npos) << report.violations;
}

INSTANTIATE_TEST_SUITE_P(
    Bugs, PlantedLedgerBugTest,
    ::testing::Values(Planted{LedgerBug::effect_outside, {{"kill", 8}}, " has 2 effects"},
                      Planted{LedgerBug::effect_after_completion, {{"kill", 8}}, " has 0 effects"},
                      Planted{LedgerBug::unguarded_effect, {{"freeze", 6}}, " has 2 effects"},
                      Planted{LedgerBug::prefetched_count, {{"kill", 8}}, "crashes were counted"},
                      Planted{LedgerBug::convict_innocent, {{"kill", 8}}, "tasks are dead"},
                      Planted{LedgerBug::extra_connections, {}, "backends, but"}),
    [](const auto& planted) { return std::string(to_string(planted.param.bug)); });

}  // namespace
}  // namespace leasehold::testing
