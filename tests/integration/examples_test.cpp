// The examples do what their documentation says. They use fixed names, so they get a Redis of their
// own.
#include <gtest/gtest.h>

#include "tests/support/process.hpp"
#include "tests/support/redis_server.hpp"

namespace leasehold::testing {
namespace {

struct Example {
  std::string program;
  std::vector<std::string> says;  ///< in this order, among other things
};

class ExamplesTest : public ::testing::TestWithParam<Example> {};

TEST_P(ExamplesTest, RunsAndSaysWhatItShould) {
  const RedisServer redis;
  const auto [program, says] = GetParam();
  const std::string path = LEASEHOLD_EXAMPLES "/" + program;
  const Finished finished = run({.argv = {path, redis.uri()}});
  EXPECT_TRUE(finished.status.success()) << finished.output;
  std::size_t from = 0;
  for (const std::string& line : says) {
    const auto found = finished.output.find(line, from);
    ASSERT_NE(found, std::string::npos) << "does not say \"" << line << "\":\n" << finished.output;
    from = found + line.size();
  }
  for (const std::string& key : redis.keys("*")) {
    EXPECT_TRUE(key.ends_with(":fence")) << "left behind: " << key;
  }

  EXPECT_EQ(run({.argv = {path}}).status.code, 2);
}

INSTANTIATE_TEST_SUITE_P(
    All, ExamplesTest,
    ::testing::Values(Example{"lock_example",
                              {"charging invoice 42 with fencing token",
                               "invoice:42 is held by runner_", "after release it is free",
                               "invoice:43 was lost: vanished"}},
                      Example{"shared_lock_example",
                              {"2 readers at once", "a writer beside them: no",
                               "writing with fencing token", "token unchanged"}},
                      Example{"semaphore_example",
                              {"a third export: has to wait", "with 3 permits it runs",
                               "the others still run: yes"}},
                      Example{"acquire_all_example",
                              {"alice to bob: done with 2 locks", "bob to alice: done with 2 locks",
                               "none of them; alice is free"}},
                      Example{"mutex_example",
                              {"ledger and archive are ours", "writing beside two readers: no",
                               "writing alone: yes"}}),
    [](const auto& example) { return example.param.program; });

}  // namespace
}  // namespace leasehold::testing
