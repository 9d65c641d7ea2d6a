// A short soak of the ledger: each fault, a few thousand tasks. `./dev soak tasks` does 200,000.
//
// LEASEHOLD_LEDGER_SEED repeats a choice of faults.
#include <gtest/gtest.h>

#include "harness/temp_dir.hpp"
#include "tests/ledger/small_task_soak.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

TEST(TaskSoakTest, EachFaultLosesNothingAndDoublesNothing) {
  const TempDir dir;
  const TaskSoakOptions options = small_task_soak(dir);
  const TaskSoakReport report = soak_tasks(options);
  EXPECT_EQ(report.violations, "");
  EXPECT_GE(report.tasks, options.tasks);
  EXPECT_GT(report.repeated_tasks, 0) << "the faults hit somebody";
  for (const auto& [fault, least] : options.faults) {
    EXPECT_GE(report.faults.at(fault), least) << fault;
  }
}

}  // namespace
}  // namespace leasehold::testing
