// The examples do what their first lines say.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "harness/process.hpp"
#include "harness/temp_dir.hpp"
#include "tests/support/shared_servers.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

class TaskExamplesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TaskExamplesTest, Runs) {
  const auto database = shared_postgres().create_fresh_database();
  const auto ran = run({.argv = {LEASEHOLD_EXAMPLES "/" + std::string(GetParam()),
                                 shared_postgres().uri(database)}});
  EXPECT_TRUE(ran.status.success()) << ran.output;
  EXPECT_FALSE(ran.output.empty());
}

TEST(EmbeddedTaskExampleTest, RunsInMemoryAndInAFile) {
  const std::string program = LEASEHOLD_EXAMPLES "/embedded_task_example";
  const TempDir dir;
  const std::string file = "sqlite:" + (dir.path() / "tasks.db").string();
  for (const auto& argv : {std::vector{program}, std::vector{program, file}}) {
    const auto ran = run({.argv = argv});
    EXPECT_TRUE(ran.status.success()) << ran.output;
    EXPECT_TRUE(ran.output.starts_with("paid 2 from sqlite:")) << ran.output;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TaskExamplesTest,
                         ::testing::Values("task_example", "transactional_enqueue_example",
                                           "exactly_once_example", "worker_example"),
                         [](const auto& example) { return std::string(example.param); });

}  // namespace
}  // namespace leasehold::testing
