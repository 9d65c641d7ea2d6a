// A machine that is suspended, whose resolver is silent, or that has no threads left.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/process.hpp"
#include "tests/support/lock_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

/// What the program says in the end, without the end of the line.
std::string said_by_program(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), LEASEHOLD_TEST_PROGRAMS "/machine_faults_program");
  auto done = run({.argv = std::move(arguments)});
  EXPECT_TRUE(done.status.success()) << done.output;
  while (done.output.ends_with('\n')) done.output.pop_back();
  return done.output.substr(done.output.find_last_of('\n') + 1);
}

TEST(SuspendedMachineTest, NothingIsTrustedThatHasEndedMeanwhile) {
  const RedisServer redis;
  EXPECT_EQ(said_by_program({"suspended", redis.uri()}), "ok");
  EXPECT_EQ(said_by_program({"suspended", "sqlite::memory:"}), "ok");
}

TEST(SilentResolverTest, NoCallAndNoDestructorWaitsForIt) {
  EXPECT_EQ(said_by_program({"silent-resolver"}), "ok");
}

TEST(NoThreadsTest, EveryCallSaysSoAndTheProcessGoesOn) {
  const RedisServer redis;
  EXPECT_EQ(said_by_program({"no-threads", redis.uri()}), "ok");
}

}  // namespace
}  // namespace leasehold::testing
