// leaseholdd that meets a standby becomes ready once that is promoted.
#include <gtest/gtest.h>

#include <leasehold/tasks.hpp>

#include "harness/postgres_pair.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/leaseholdd.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

class DaemonFailoverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    migrate(pair.primary().uri());
    pair.await_caught_up();
  }

  static Leaseholdd start(const std::string& uri) {
    return Leaseholdd(LEASEHOLDD, {"--database", uri, "--round-interval", "200ms",
                                   "--connect-timeout", "5s", "--command-timeout", "5s"});
  }
  static int readiness(const Leaseholdd& daemon) { return daemon.get("/readyz").status; }

  PostgresPair pair;
};

TEST_F(DaemonFailoverTest, ItBecomesReadyWhenTheOnlyHostIsPromoted) {
  const auto daemon = start(pair.standby().uri());
  ASSERT_TRUE(eventually([&] { return daemon.logged("point it at the primary") > 0; }, 120s))
      << daemon.log();
  EXPECT_EQ(readiness(daemon), 503);
  pair.primary().kill();
  pair.promote();
  EXPECT_TRUE(eventually([&] { return readiness(daemon) == 200; }, 120s)) << daemon.log();
}

TEST_F(DaemonFailoverTest, ItFollowsThePrimaryFromOneHostToTheOther) {
  const auto daemon = start(pair.uri_standby_first());
  ASSERT_TRUE(eventually([&] { return readiness(daemon) == 200; }, 120s)) << daemon.log();
  pair.primary().kill();
  EXPECT_TRUE(eventually([&] { return readiness(daemon) == 503; }, 120s)) << daemon.log();
  pair.promote();
  EXPECT_TRUE(eventually([&] { return readiness(daemon) == 200; }, 120s)) << daemon.log();
}

}  // namespace
}  // namespace leasehold::testing
